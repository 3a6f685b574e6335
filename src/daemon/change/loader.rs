//! Where a daemon's configuration comes from: it is read at the start, and again at each reload. May block; reads no clock.

use crate::config::Config;
use crate::daemon::failure::Failure;

/// Reads the configuration, at the start and at each reload.
pub(crate) struct Loader(Box<dyn FnMut() -> Result<Config, Failure> + Send>);

impl Loader {
    /// Calls `load` for each read, on a thread that may block.
    pub(crate) fn new<E: Into<Failure>>(mut load: impl FnMut() -> Result<Config, E> + Send + 'static) -> Self {
        Self(Box::new(move || load().map_err(Into::into)))
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub(crate) fn load(&mut self) -> Result<Config, Failure> {
        (self.0)()
    }

    /// Calls `load` at the start only. The configuration cannot be read again, so reloads are refused.
    pub(crate) fn once<E: Into<Failure>>(load: impl FnOnce() -> Result<Config, E> + Send + 'static) -> Self {
        let mut load = Some(load);
        Self(Box::new(move || match load.take() {
            Some(load) => load().map_err(Into::into),
            None => {
                Err(Failure::Permission("this configuration cannot be read again; restart hertzd to change it".into()))
            }
        }))
    }
}

/// A configuration that cannot be read again.
impl From<Config> for Loader {
    fn from(config: Config) -> Self {
        Self::once(move || Ok::<_, Failure>(config))
    }
}
