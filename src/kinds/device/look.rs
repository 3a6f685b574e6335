//! Previews a device before a start: `hertzd check` does this in place of opening it. Changes nothing; may block; reads no clock.

use super::reconnecting::Missing;
use crate::config::Preview;
use crate::site::{DeviceId, Holder, Label, Refusal, Site};
use crate::sys::user::{Access, access, service_user};
use std::any::Any;
use std::path::Path;

/// What is known of a device that a start may open.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// The devices that only one task can have.
    pub(crate) devices: Vec<DeviceId>,
    /// The key to blame if two tasks want them.
    pub(crate) key: &'static str,
    /// A device that may be shared, kept open so that a second task meets the same conditions as at a start.
    pub(crate) open: Option<Box<dyn Any + Send>>,
    /// Why nothing more is visible from here.
    pub(crate) hidden: Option<String>,
    /// That a running hertzd has the device, as a sentence.
    pub(crate) taken: Option<String>,
    /// What only a start can find out, as a clause that begins with "whether".
    pub(crate) unknown: Option<String>,
}

impl Sight {
    /// A device with nothing wrong.
    pub(crate) fn of(key: &'static str, devices: Vec<DeviceId>) -> Self {
        Self { devices, key, ..Self::default() }
    }

    #[must_use]
    pub(crate) fn unknown(self, unknown: impl Into<String>) -> Self {
        Self { unknown: Some(unknown.into()), ..self }
    }
}

/// The report for a file or node that only the service may open, not this process. `None` in all other cases; opening it then shows a
/// missing file or missing permission.
pub(crate) fn hidden(path: &Path, write: bool) -> Option<Sight> {
    (access(path, write) == Access::ServiceOnly).then(|| {
        let path = path.display();
        let why = format!("only the service's user {} may open {path}, so nothing more was checked", service_user());
        Sight { hidden: Some(why), ..Sight::default() }
    })
}

/// The preview for a task that may wait for its device.
///
/// # Errors
/// The refusal that a start would give.
pub(crate) fn preview(
    site: &Site,
    label: &Label,
    missing: Missing,
    looked: Result<Sight, Refusal>,
) -> Result<Preview, Refusal> {
    let mut preview = Preview::default();
    match looked {
        Ok(sight) => {
            let mut wanted = Refusal::in_use(sight.key, &label.device, &*sight.devices);
            if sight.open.is_none() && site.find_holder(&mut wanted) == Some(Holder::Task) {
                return Err(wanted);
            }
            preview.held = Some(Box::new((sight.open, site.claim(sight.devices, &label.task))));
            preview.warnings.extend(sight.hidden);
            preview.taken.extend(sight.taken);
            preview.unknown.extend(sight.unknown);
        }
        Err(mut refusal) => match site.find_holder(&mut refusal) {
            holder if missing == Missing::Refuse || holder == Some(Holder::Task) => return Err(refusal),
            _ => preview.warnings.push(format!("{}; the task would wait for it", refusal.message)),
        },
    }
    Ok(preview)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tasks_cannot_both_have_a_device() {
        let site = Site::default();
        let sight = || Ok::<_, Refusal>(Sight::of("device", vec![DeviceId::Named("seen by this test".into())]));
        let label = |task| Label { device: "toy".into(), task: String::from(task) };
        let first = preview(&site, &label("a"), Missing::Refuse, sight()).unwrap();
        let refused = preview(&site, &label("b"), Missing::Wait, sight()).unwrap_err();
        let wanted = "toy is in use by task a; only one task at a time can have it";
        assert_eq!((refused.key, &*refused.message), ("device", wanted));
        // A device that is kept open may be shared. If it cannot be, the second attempt to open it is refused.
        let shared = || Ok(Sight { open: Some(Box::new(())), ..sight().unwrap() });
        preview(&site, &label("b"), Missing::Refuse, shared()).unwrap();
        let busy = Refusal::in_use("device", "toy", [DeviceId::Named("seen by this test".into())]);
        assert_eq!(preview(&site, &label("b"), Missing::Wait, Err(busy)).unwrap_err().message, wanted);
        drop(first);
        preview(&site, &label("b"), Missing::Refuse, sight()).unwrap();
    }

    #[test]
    fn what_may_still_come_is_a_warning() {
        let site = Site::default();
        let label = Label { device: "toy".into(), task: "a".into() };
        let refusal = || Err(Refusal::new("device", "there is none"));
        assert_eq!(preview(&site, &label, Missing::Refuse, refusal()).err(), refusal().err());
        let waiting = preview(&site, &label, Missing::Wait, refusal()).unwrap();
        assert_eq!(waiting.warnings, ["there is none; the task would wait for it"]);
        let hidden = Sight { hidden: Some("hidden".into()), ..Sight::default() };
        assert_eq!(preview(&site, &label, Missing::Refuse, Ok(hidden)).unwrap().warnings, ["hidden"]);
    }
}
