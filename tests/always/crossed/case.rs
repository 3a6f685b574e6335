//! A random case: tasks, and the links between them.

use crate::random::SplitMix;

/// Nanoseconds.
pub(crate) const US: i64 = 1_000;
pub(crate) const MS: i64 = 1_000_000;

/// The behaviour of a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Does {
    /// Produces numbers, errors and gaps, by a script with this seed.
    Source {
        script: u64,
        valid: Option<f64>,
    },
    /// A plant of first order; its input is not a link.
    Plant {
        driven_by: Option<usize>,
        constant: f64,
        gain: f64,
        time_constant: f64,
    },
    /// The mean or the median of a window, or a low-pass filter with a cutoff as a fraction of the rate.
    Mean(usize),
    Median(usize),
    LowPass(f64),
    Pi {
        kp: f64,
        ki: f64,
        setpoint: f64,
        limit: f64,
    },
    Alarm {
        high: f64,
        hihi: f64,
        hysteresis: f64,
        latch: bool,
    },
    /// Answers the tick before, as a program does.
    Echo,
    /// Shows its inputs.
    Probe,
}

/// A link: a value that a task reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) key: &'static str,
    pub(crate) from: usize,
    /// A `previous` link: the row of the tick before, and this number until there is one.
    pub(crate) previous: Option<f64>,
    /// A bad value leaves the task's output unchanged.
    pub(crate) spared: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) does: Does,
    pub(crate) worker: usize,
    pub(crate) period: i64,
    pub(crate) phase: i64,
    pub(crate) deadline: i64,
    pub(crate) runs: Vec<i64>,
    pub(crate) links: Vec<Link>,
    pub(crate) max_age: i64,
    /// How long the last good value is held; 0: not at all.
    pub(crate) hold: i64,
    /// In periods.
    pub(crate) max_gap: u64,
    /// The tick from which a new task replaces it, like a reload that changes its section.
    pub(crate) restarts_at: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) tasks: Vec<Task>,
    pub(crate) length: i64,
}

impl Case {
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let mut case = Self { tasks: Vec::new(), length: (80 + random.below(100)) * MS };
        // Under overload all tasks have the same period, and so equal deadlines.
        let overload = random.below(3) == 0;
        let workers = 1 + pick(&mut random, 2);
        let period = (pick(&mut random, 5), overload);
        for _ in 0..=random.below(3) {
            let valid = (random.below(2) == 0).then_some(8.0);
            let script = random.next() >> 33;
            case.add(&mut random, Does::Source { script, valid }, vec![], period, workers);
        }
        if random.below(4) == 0 {
            let does = Does::Plant { driven_by: Some(0), constant: 0.0, gain: 2.0, time_constant: 0.02 };
            case.add(&mut random, does, vec![], period, workers);
        }
        if random.below(2) == 0 {
            case.add_loop(&mut random, period, workers);
        }
        for _ in 0..=random.below(5) {
            let does = Does::random(&mut random);
            let from = pick(&mut random, case.tasks.len());
            let links = case.links(&mut random, &does, from);
            case.add(&mut random, does, links, period, workers);
        }
        // Each unused value is shown, and some used ones.
        for from in 0..case.tasks.len() {
            let taken = case.tasks.iter().any(|task| task.links.iter().any(|link| link.from == from));
            if !taken || random.below(3) == 0 {
                let links = case.links(&mut random, &Does::Probe, from);
                case.add(&mut random, Does::Probe, links, period, workers);
            }
        }
        case
    }

    /// A plant under a controller, whose output reaches the plant through an echo.
    fn add_loop(&mut self, random: &mut SplitMix, period: (usize, bool), workers: usize) {
        let plant = self.tasks.len();
        let [filter, pi, echo] = [plant + 1, plant + 2, plant + 3];
        let (gain, time_constant) = (1.0 + small(random, 3), 0.01 * (1.0 + small(random, 20)));
        let does = Does::Plant { driven_by: Some(echo), constant: 0.0, gain, time_constant };
        self.add(random, does, vec![], period, workers);
        let links = self.links(random, &Does::Mean(3), plant);
        self.add(random, Does::Mean(3), links, period, workers);
        let link = |key, from| Link { key, from, previous: None, spared: true };
        let mut links = vec![link("input", filter)];
        if random.below(2) == 0 {
            links.push(Link { previous: Some(small(random, 3)), ..link("track", echo) });
        }
        let does = Does::Pi { kp: 0.5, ki: 5.0, setpoint: 3.0 + small(random, 5), limit: 6.0 };
        self.add(random, does, links, period, workers);
        let links = vec![link("input", pi), Link { previous: Some(0.0), ..link("back", echo) }];
        self.add(random, Does::Echo, links, period, workers);
    }

    /// The links of a task of this kind; the first is from `from`.
    fn links(&self, random: &mut SplitMix, does: &Does, from: usize) -> Vec<Link> {
        let own = self.tasks.len();
        let spared = matches!(does, Does::Alarm { .. } | Does::Pi { .. } | Does::Echo);
        let link = |key, from, previous| Link { key, from, previous, spared };
        let mut links = vec![link("input", from, None)];
        match does {
            Does::Echo => links.push(link("back", own, Some(1.0))),
            Does::Alarm { latch: true, .. } => links.push(link("reset", pick(random, own), None)),
            Does::Pi { .. } if random.below(2) == 0 => links.push(link("track", own, Some(small(random, 4)))),
            _ => (),
        }
        links
    }

    fn add(&mut self, random: &mut SplitMix, does: Does, links: Vec<Link>, period: (usize, bool), workers: usize) {
        let worker = pick(random, workers);
        let (nth, overload) = if period.1 { period } else { (pick(random, 5), false) };
        let period = [1, 2, 4, 5, 10][nth] * MS;
        let phase = if overload || random.below(3) > 0 { 0 } else { random.below(period / US) * US };
        // Instants of different workers always differ, so it is clear which comes first.
        let phase = phase + if worker == 1 { 500 } else { 0 };
        let deadline =
            if random.below(4) == 0 && !overload { (1 + random.below(2 * period / US)) * US } else { period };
        let longest = if overload { period / 2 } else { period / 8 };
        let runs = random.some_below(3, longest / US).into_iter().map(|run| run * US).collect();
        let max_age = if random.below(3) == 0 { (2 + random.below(20)) * MS + 1 } else { 10_000 * MS };
        let hold = if random.below(3) == 0 { (1 + random.below(20)) * MS + 7 } else { 0 };
        let max_gap = 1 + random.below(8).unsigned_abs();
        let can_restart =
            matches!(does, Does::Mean(_) | Does::Median(_) | Does::LowPass(_) | Does::Pi { .. } | Does::Alarm { .. });
        let restarts_at = (can_restart && random.below(3) == 0).then(|| 1 + random.below(30).unsigned_abs());
        self.tasks.push(Task {
            does,
            worker,
            period,
            phase,
            deadline,
            runs,
            links,
            max_age,
            hold,
            max_gap,
            restarts_at,
        });
    }
}

impl Does {
    fn random(random: &mut SplitMix) -> Self {
        match random.below(8) {
            0 => Self::Mean(2 + pick(random, 7)),
            1 => Self::Median(3 + 2 * pick(random, 3)),
            2 => Self::LowPass([0.02, 0.1, 0.3][pick(random, 3)]),
            3 | 4 => Self::Pi { kp: 0.5, ki: 1.0 + small(random, 20), setpoint: small(random, 9), limit: 5.0 },
            5 | 6 => Self::Alarm {
                high: 2.017,
                hihi: 4.973,
                hysteresis: 0.0031 + small(random, 2),
                latch: random.below(3) > 0,
            },
            _ => Self::Echo,
        }
    }

    /// The name of its first value.
    pub(crate) fn value(&self) -> &'static str {
        match self {
            Self::Source { .. } => "v",
            Self::Plant { .. } => "y",
            Self::Alarm { .. } => "active",
            Self::Probe => "value",
            _ => "out",
        }
    }
}

/// A number in `0..below`.
fn pick(random: &mut SplitMix, below: usize) -> usize {
    usize::try_from(random.below(i64::try_from(below).unwrap())).unwrap()
}

/// A number in `0..below`, in eighths: exact as text.
fn small(random: &mut SplitMix, below: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let eighths = random.below(8 * below) as f64;
    eighths / 8.0
}
