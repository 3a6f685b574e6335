//! How much of a run a page shows. Plain numbers.

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    pub(super) rows: usize,       // of the table of tasks
    pub(super) histograms: usize, // tasks with one
    pub(super) tables: bool,      // the numbers behind the histograms
    pub(super) over_time: usize,  // tasks with a chart of lateness over time
    pub(super) lanes: usize,      // tasks in the worst second
}

/// From most to least detail. The last one fits every run.
pub(super) const DETAILS: [Detail; 8] = [
    Detail { rows: 5_000, histograms: 1_000, tables: true, over_time: 40, lanes: 16 },
    Detail { rows: 5_000, histograms: 1_000, tables: true, over_time: 16, lanes: 12 },
    Detail { rows: 5_000, histograms: 1_000, tables: true, over_time: 4, lanes: 8 },
    Detail { rows: 5_000, histograms: 1_000, tables: false, over_time: 4, lanes: 8 },
    Detail { rows: 2_000, histograms: 300, tables: false, over_time: 4, lanes: 8 },
    Detail { rows: 1_000, histograms: 100, tables: true, over_time: 4, lanes: 8 },
    Detail { rows: 300, histograms: 50, tables: true, over_time: 4, lanes: 8 },
    Detail { rows: 60, histograms: 12, tables: true, over_time: 2, lanes: 4 },
];
