//! Why a device could not be opened, in a form that code can act on. No clock is read; nothing here blocks.

use super::device::DeviceId;
use super::error::BuildError;
use std::fmt;

/// Why a device could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) key: &'static str, // the key to blame in the task's section
    /// What was attempted, on what, the system's reason, the remedy. With `in_use` it ends with "is in use".
    pub(crate) message: String,
    /// The devices that others have; each allows only one task at a time. Empty: refused for another reason.
    pub(crate) in_use: Vec<DeviceId>,
}

impl Refusal {
    /// A refusal for any reason other than a device in use.
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into(), in_use: Vec::new() }
    }

    /// A refusal because another task or program has these exclusive devices. `what` begins the message: "gpiochip0: line 3".
    pub(crate) fn in_use(key: &'static str, what: impl fmt::Display, devices: impl Into<Vec<DeviceId>>) -> Self {
        Self { key, message: format!("{what} is in use"), in_use: devices.into() }
    }
}

impl From<Refusal> for BuildError {
    fn from(Refusal { key, message, .. }: Refusal) -> Self {
        Self { key, message }
    }
}

/// A device and its task, as the log names them: "camera /dev/video0 of task eye".
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) device: String,
    pub(crate) task: String,
}

impl Label {
    /// `task` is the name of the task or of its section: `eye`, `task.eye`.
    pub(crate) fn new(device: impl Into<String>, task: &str) -> Self {
        Self { device: device.into(), task: task.strip_prefix("task.").unwrap_or(task).to_owned() }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of task {}", self.device, self.task)
    }
}
