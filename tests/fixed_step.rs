//! What holds for `FixedStep` whatever the clock does.

use hertzd::pacing::{Excess, FixedStep, Rate};
use hertzd::time::{Instant, Span};
use proptest::prelude::*;
use std::num::NonZeroU32;

fn excess() -> impl Strategy<Value = Excess> {
    prop_oneof![
        Just(Excess::Keep),
        (1..50_u32).prop_map(|most| Excess::KeepUpTo(NonZeroU32::new(most).unwrap())),
        Just(Excess::Discard),
    ]
}

/// Frame times: ordinary ones, spikes, a clock that stands still, and one that goes back.
fn frame_times() -> impl Strategy<Value = Vec<i64>> {
    let time =
        prop_oneof![8 => 0..50_000_000_i64, 1 => 0..100_000_000_000_i64, 2 => Just(0_i64), 1 => -100_000_000..0_i64];
    prop::collection::vec(time, 1..200)
}

proptest! {
    #[test]
    fn the_invariants_hold(
        (num, den) in (1..2_000_u64, 1..50_u64),
        limit in prop::option::of(1..20_u32),
        excess in excess(),
        cap in prop::option::of(1..200_u64),
        tolerance in prop::option::of(0..400_000_i64),
        start in -1_000_000_000_000_i128..1_000_000_000_000,
        times in frame_times(),
    ) {
        let rate = Rate::new(num, den).unwrap();
        let cap = cap.map(|hertz| Rate::new(hertz, 1).unwrap());
        let mut steps = FixedStep::new(rate).excess(excess);
        steps = match limit {
            Some(limit) => steps.max_updates(NonZeroU32::new(limit).unwrap()),
            None => steps.unlimited(),
        };
        if let Some(cap) = cap {
            steps = steps.render_rate(cap);
        }
        if let Some(tolerance) = tolerance {
            let snaps = [30, 60, 144].map(|hertz| Rate::new(hertz, 1).unwrap());
            steps = steps.snap(&snaps, Span::from_nanos(tolerance));
        }

        let mut now = Instant::from_nanos(start);
        let first = steps.advance(now);
        prop_assert!(first.render && first.updates == 0 && first.interpolation == 0.0);

        let (mut latest, mut settled, mut renders, mut last_render) = (now, 0, 1_u64, now);
        for time in times {
            now = now + Span::from_nanos(time);
            let frame = steps.advance(now);
            latest = latest.max(now);
            settled += frame.updates + frame.discarded;
            renders += u64::from(frame.render);

            let elapsed = latest.nanos() - start + i128::from(steps.drift().nanos());
            let due = rate.ticks_before(elapsed + 1) - 1;
            prop_assert_eq!(settled + frame.pending, due, "conservation");
            prop_assert!(limit.is_none_or(|limit| frame.updates <= u64::from(limit)));
            prop_assert!((0.0..=1.0).contains(&frame.interpolation), "{:?}", frame);
            prop_assert!(frame.pending == 0 || frame.interpolation == 1.0, "saturates: {:?}", frame);
            prop_assert_eq!(frame.pending == 0, steps.wait() > Span::ZERO);
            match excess {
                Excess::Keep => prop_assert_eq!(frame.discarded, 0),
                Excess::KeepUpTo(most) => prop_assert!(frame.pending <= u64::from(most.get())),
                Excess::Discard => prop_assert_eq!(frame.pending, 0),
            }
            if frame.render {
                prop_assert!(latest > last_render, "rendered again though time stood still");
                last_render = latest;
            } else {
                prop_assert!(cap.is_some() || latest == last_render, "not rendered though time went on");
            }
            if let Some(cap) = cap {
                prop_assert!(renders <= cap.ticks_before(elapsed + 1), "more renders than the cap allows");
            }
            if tolerance.is_none() {
                prop_assert_eq!(steps.drift(), Span::ZERO);
            }
        }
    }

    #[test]
    fn how_often_the_loop_turns_does_not_matter(
        (num, den) in (1..2_000_u64, 1..50_u64),
        times in prop::collection::vec(0..50_000_000_i64, 1..200),
    ) {
        let mut often = FixedStep::new(Rate::new(num, den).unwrap()).unlimited();
        let mut once = often.clone();
        once.advance(Instant::ZERO);
        often.advance(Instant::ZERO);
        let mut now = Instant::ZERO;
        let updates: u64 = times.iter().map(|&time| {
            now = now + Span::from_nanos(time);
            often.advance(now).updates
        }).sum();
        let frame = once.advance(now);
        prop_assert_eq!(frame.updates, updates);
        prop_assert_eq!(once.wait(), often.wait());
    }
}
