//! Each protocol holds as it ships, in every order of its memory, and fails with any of its orderings weakened. Each ordering in hertzd is
//! tried like this, or is in a file listed with the reason why not.

use hertzd_loom::trial::{Model, Site, try_all};
use hertzd_loom::{counts, daemon, safety, values, worker};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;

/// Files with orderings that no model tries, and why. Such an ordering concerns a single variable that is compared with no other, or
/// duplicates the order of system calls, locks or queues of the standard library.
const NOT_TRIED: [(&str, &str); 16] = [
    ("src/daemon/outputs/guard_thread.rs", "a count that main polls"),
    ("src/daemon/main/requests.rs", "one flag for each request; main looks again whatever it misses"),
    ("src/io/pool.rs", "a count of idle threads, beside a channel"),
    ("src/log/lines.rs", "counts beside a channel, and a time for a message; who waits for them has a limit"),
    ("src/io/queue.rs", "counts of threads and of work, beside a channel; whoever misses one makes a thread too many"),
    ("src/io/watches.rs", "a flag that says that a path may have changed, which is looked at now and then in any case"),
    ("src/daemon/main/status_socket.rs", "a flag that ends a thread"),
    ("src/channels/alarm.rs", "a fence after the count of references, which is the standard library's"),
    ("src/site/target.rs", "a count of users, under a lock where they are added"),
    ("src/kinds/output/held.rs", "a count of users, under a lock where they are added; a flag of one thread"),
    ("src/kinds/output/reopen.rs", "a count that main polls"),
    ("src/kinds/succession.rs", "a number, and after it the flag that it counts: one release, one acquire"),
    ("src/kinds/sensor/follow.rs", "a flag, beside the descriptor of sys/fd.rs"),
    ("src/sys/crash.rs", "what a crashed thread leaves for another one, which it wakes by a write to a pipe"),
    ("src/sys/fd.rs", "a descriptor, exchanged in one step"),
    ("src/sys/signals.rs", "flags of a signal's handler"),
];

/// Whether a file uses the atomics that are tried, and its number of orderings, without its tests.
///
/// # Panics
/// It has orderings in a form that this does not detect.
fn words(path: &Path) -> (bool, usize) {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod").next().unwrap();
    let code: Vec<_> = code.lines().map(|line| line.split("//").next().unwrap()).collect();
    let hidden = code.iter().find(|line| line.contains("use ") && line.contains("Ordering::"));
    assert!(hidden.is_none(), "{}: {hidden:?}: name orders as Ordering::X", path.display());
    let is_tried = code.iter().any(|line| line.contains("use crate::atomic"));
    let orders = ["Acquire", "Release", "AcqRel", "SeqCst"].map(|word| format!("Ordering::{word}"));
    let count = |line: &&str| orders.iter().map(|order| line.matches(order.as_str()).count()).sum::<usize>();
    (is_tried, code.iter().map(count).sum())
}

fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn each_protocol_holds_and_each_order_is_tried_or_has_a_reason() {
    let protocols: [(&str, &[Model]); 6] = [
        ("mailboxes and links", &values::MODELS),
        ("counts of a task", &counts::MODELS),
        ("requests to a worker", &worker::models::MODELS),
        ("outputs that are live", &safety::models::LIVE),
        ("targets of outputs", &safety::models::TARGETS),
        ("orders to make all outputs safe", &daemon::models::MODELS),
    ];
    let mut tried = BTreeMap::<String, BTreeSet<Site>>::new();
    thread::scope(|scope| {
        let trials = protocols.map(|(protocol, models)| (protocol, scope.spawn(|| try_all(models))));
        for (protocol, trial) in trials {
            let sites = trial.join().unwrap_or_else(|_| panic!("{protocol}: the panic above says what does not hold"));
            for site in sites {
                tried.entry(site.file().to_owned()).or_default().insert(site);
            }
        }
    });
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut found, mut wrong, mut reasons) = (Vec::new(), Vec::new(), 0);
    files(&root.join("src"), &mut found);
    assert!(found.len() > 100, "{found:?}");
    for path in found {
        let file = path.strip_prefix(root.to_str().unwrap()).unwrap().trim_start_matches('/').to_owned();
        let (is_tried, said) = words(Path::new(&path));
        let reached = tried.remove(&file).unwrap_or_default();
        let has_reason = NOT_TRIED.iter().any(|(not_tried, _)| *not_tried == file);
        reasons += usize::from(has_reason && !is_tried);
        if is_tried && reached.len() != said {
            wrong.push(format!("{file}: says {said} orders, of which models reach {}: {reached:#?}", reached.len()));
        } else if !is_tried && (said > 0) != has_reason {
            let remedy = "take the atomics of crate::atomic and add a model, or say here why there is none";
            wrong.push(format!("{file}: says {said} orders; {remedy}"));
        }
    }
    assert!(tried.is_empty(), "these are not there: {tried:?}");
    assert_eq!(reasons, NOT_TRIED.len(), "a reason for a file that is not there, or is tried");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
