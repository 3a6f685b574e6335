//! `hertzd safe CONFIG`: writes the safe values of a configuration's outputs if no daemon has left a plan for them.

use super::safe_readback::{self, Look};
use super::safe_writes::{AT_ONCE, not_returned};
use super::{App, Source, Stop, print, runtime};
use crate::config::{BuildError, Problems, TaskConfig};
use crate::daemon::{FoundPlan, NoPlan, SafePlan};
use crate::kinds::can;
use crate::safety::{Guard, PlannedWrite};
use crate::site::{Built, Site};
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Span};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::thread;
use std::time::Duration;

/// What happened to one output.
enum Became {
    /// Its safe values were written, or would be; or it is to be left alone. One line each.
    Well(Vec<String>),
    /// It does not have its safe value.
    Failed(String),
    /// Another process holds its target.
    Held(String),
}

/// How long all outputs together may take. A write that returns does so within two seconds. Reading a fan's mode, its value, and finally
/// what was written takes up to three seconds each.
const RETURNS_WITHIN: Span = Span::from_seconds(12);

/// Writes the safe values in parallel, so that an output that fails or hangs does not affect the others.
pub(super) fn safe(app: &App, source: &Source, dry_run: bool) -> Result<(), Stop> {
    let config = app.load(source).map_err(|problems: Problems| problems.ending_in("nothing was written"))?;
    let mut live = Live::found();
    let (mut text, mut failed, mut held) = (std::mem::take(&mut live.waited), Vec::new(), Vec::new());
    let tasks: Vec<_> = config.tasks.into_iter().filter(|task| task.acts).collect();
    let names: Vec<_> = tasks.iter().map(|task| task.name.clone()).collect();
    for (task_name, became) in names.iter().zip(make_all(tasks, live, dry_run)) {
        match became {
            // Writing to a String cannot fail.
            Became::Well(lines) => lines.iter().for_each(|line| _ = writeln!(text, "{task_name}: {line}")),
            Became::Failed(why) => failed.push(format!("{task_name}: {why}")),
            Became::Held(by) => held.push(format!("{task_name}: {by}")),
        }
    }
    if text.is_empty() && failed.is_empty() && held.is_empty() {
        text = format!("{source} has no outputs: nothing to do\n");
    }
    print(&text)?;
    match (&failed[..], &held[..]) {
        ([], []) => Ok(()),
        ([], held) => Err(Stop::Permission(format!(
            "nothing was written where another process has the output, and writes its safe value itself when it is stopped: {}",
            held.join("; ")
        ))),
        (failed, held) => {
            let all = failed.iter().chain(held).map(String::as_str).collect::<Vec<_>>().join("; ");
            Err(Stop::Unwell(format!("not every output has its safe value: {all}")))
        }
    }
}

/// The live daemons, known from their plans.
struct Live {
    plans: Vec<SafePlan>,
    unseen: Vec<String>, // plans that cannot be read, and why
    waited: String,      // notes on killed processes, one line each
}

impl Live {
    fn found() -> Self {
        let mut found = Self { plans: Vec::new(), unseen: Vec::new(), waited: String::new() };
        // One limit for all of them together.
        let began = KernelClock::monotonic().now();
        for path in runtime::safe_plans() {
            if let Some(waited) = FoundPlan::open(&path).ok().and_then(|plan| plan.await_end(began)) {
                // Writing to a String cannot fail.
                _ = writeln!(found.waited, "{waited}");
            }
            match SafePlan::held(&path) {
                Ok(plan) => found.plans.extend(plan),
                Err(NoPlan::Unusable(why) | NoPlan::NotOurs(why)) => found.unseen.push(why),
                Err(NoPlan::Missing | NoPlan::Held { .. }) => {}
            }
        }
        found
    }
}

/// Makes each output safe on worker threads; threads that hang are abandoned. If no thread can be started, this thread does the work.
fn make_all(tasks: Vec<TaskConfig>, live: Live, dry_run: bool) -> Vec<Became> {
    let count = tasks.len();
    let (sender, done) = mpsc::channel();
    let next = Arc::new(Mutex::new(tasks.into_iter().enumerate()));
    let queue = next.clone();
    let make_some = move || {
        loop {
            let Some((index, mut task)) = queue.lock().ok().and_then(|mut next| next.next()) else { return };
            _ = sender.send((index, make(&mut task, &live, dry_run)));
        }
    };
    let make_some = Arc::new(make_some);
    for _ in 0..count.min(AT_ONCE) {
        let some = make_some.clone();
        if thread::Builder::new().spawn(move || some()).is_err() {
            make_some();
            break;
        }
    }
    drop(make_some);
    let clock = KernelClock::monotonic();
    let end = clock.now() + RETURNS_WITHIN;
    let mut all: Vec<_> = (0..count).map(|_| None).collect();
    while let Ok((index, became)) =
        done.recv_timeout(Duration::from_nanos((end - clock.now()).max(Span::ZERO).nanos().unsigned_abs()))
    {
        all[index] = Some(became);
    }
    // From here on, no further output is started.
    for (index, _) in next.lock().iter_mut().flat_map(|next| next.by_ref()) {
        let why = format!(
            "it was not begun, as {AT_ONCE} others have not returned: look at their devices, and run this again"
        );
        all[index] = Some(Became::Failed(why));
    }
    all.into_iter().map(|became| became.unwrap_or_else(|| Became::Failed(not_returned(RETURNS_WITHIN)))).collect()
}

/// Opens an output and writes its safe values, unless another daemon has it. Each output has its own site, because others are made safe at
/// the same time.
fn make(task: &mut TaskConfig, live: &Live, dry_run: bool) -> Became {
    let mut site = Site::default();
    let refused = |error: BuildError| Became::Failed(format!("{}: {}", error.key, error.message));
    let preview = match task.blueprint.look(&mut site) {
        Some(Ok(preview)) => preview,
        Some(Err(error)) => return refused(error),
        None => return Became::Failed("there is nothing to look at".into()),
    };
    // While the preview lives, it holds the ids of its frames.
    let unseen = || {
        let is_unseen = task.kind == "can" && !live.unseen.is_empty();
        is_unseen.then(|| format!("a daemon whose plan cannot be read may be sending it: {}", live.unseen.join("; ")))
    };
    if let Some(by) = preview.taken.first().cloned().or_else(|| sender(&site, &live.plans)).or_else(unseen) {
        return Became::Held(by);
    }
    let safe = preview.safe.clone();
    drop(preview);
    if safe.iter().any(|safe| safe.starts_with("\"restore\"")) {
        let why = "safe = \"restore\": what it held before is known only to the plan of the daemon that had it; it is left alone";
        return Became::Failed(why.into());
    }
    if safe.iter().any(|safe| safe.starts_with("\"hold\"")) {
        return Became::Well(vec![
            "left as it is: by safe = \"hold\" it keeps what was written last, whether that is safe or not".into(),
        ]);
    }
    if dry_run {
        let by = |safe: &String| match task.kind {
            "can" => format!("would be made safe: {safe}"),
            _ => format!("would be made safe by {safe}"),
        };
        return Became::Well(safe.iter().map(by).collect());
    }
    let Built { task, beginnings, guards, .. } = match task.blueprint.build(&mut site) {
        Ok(built) => built,
        Err(error) => return refused(error),
    };
    for beginning in beginnings {
        if let Err(error) = beginning.write() {
            return refused(error);
        }
    }
    let (mut wrote, mut failed, mut looks) = (Vec::new(), Vec::new(), Vec::new());
    for guard in guards.iter().filter_map(Weak::upgrade) {
        match guard.trip() {
            Ok(()) => {
                wrote.push(format!("wrote {}", guard.says()));
                looks.extend(guard.plan().into_iter().map(|write| (guard.clone(), write)));
            }
            Err(error) => failed.push(format!("{}: {error}", guard.says())),
        }
    }
    let look = |(guard, write): (Arc<Guard>, PlannedWrite)| -> Look { Box::new(move || write.amiss(guard.line())) };
    failed.extend(safe_readback::amiss(looks.into_iter().map(look).collect()).into_iter().flatten());
    drop(task);
    match (&failed[..], &wrote[..]) {
        ([], []) => Became::Failed("it cannot be made safe by another than its task".into()),
        ([], _) => Became::Well(wrote),
        _ => Became::Failed(failed.join(", ")),
    }
}

/// Which of these daemons sends a frame that this task sends too. Frame ids cannot be locked.
fn sender(site: &Site, live: &[SafePlan]) -> Option<String> {
    let writes = |plan: &SafePlan| {
        let writes = plan.outputs.iter().flat_map(|output| output.writes.clone());
        writes.map(PlannedWrite::followed).collect::<Vec<_>>()
    };
    let is_sent_here =
        |write: &PlannedWrite| write.sends().is_some_and(|(interface, id)| can::sends(site, interface, id));
    live.iter().find_map(|plan| {
        let write = writes(plan).into_iter().find(is_sent_here)?;
        Some(format!("the daemon with pid {} sends it: in its plan is {write}", plan.pid))
    })
}
