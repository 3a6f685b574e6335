//! Where other threads and programs will run: off the CPUs that workers are pinned to, if any other CPU is left.

use crate::config::Config;
use crate::sys::thread::affinity;

/// A sentence with its heading. Empty if no worker is pinned.
pub(super) fn describe(config: &Config) -> String {
    let pinned: Vec<usize> = config.workers.iter().flat_map(|worker| worker.cpus.iter().copied()).collect();
    sentence(&pinned, &affinity().unwrap_or_default())
}

/// `usable`: the CPUs that this process may use.
fn sentence(pinned: &[usize], usable: &[usize]) -> String {
    if pinned.is_empty() {
        return String::new();
    }
    let cool: Vec<_> = usable.iter().filter(|cpu| !pinned.contains(cpu)).map(ToString::to_string).collect();
    let said = match cool.is_empty() {
        true => "on any CPU, also on those of the workers: no other one is left".to_owned(),
        false => format!("on CPU {}, apart from the pinned workers", cool.join(", ")),
    };
    format!("\nother threads and programs: {said}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_where_other_threads_run_or_that_no_cpu_is_left() {
        assert_eq!(sentence(&[], &[0, 1]), "");
        assert_eq!(
            sentence(&[1, 3], &[0, 1, 2, 3]),
            "\nother threads and programs: on CPU 0, 2, apart from the pinned workers\n"
        );
        for (pinned, usable) in [(&[0, 1][..], &[0, 1][..]), (&[0], &[0])] {
            let said = sentence(pinned, usable);
            assert!(said.contains("no other one is left"), "{said}");
        }
    }
}
