//! `FixedStep`: invariants under arbitrary clocks, and some cases by hand. `tests/always/docs.rs` checks the drawing in its
//! documentation.

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

/// Frame times: ordinary ones, spikes, a clock that stops, and one that goes back.
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
    fn the_frame_rate_does_not_matter(
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

fn at(millis: i64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// A simulation in which each update of 10 ms costs 20 ms. Returns the time of each call and its number of updates.
fn overload(mut steps: FixedStep, calls: usize) -> Vec<(i128, u64)> {
    assert_eq!(steps.advance(at(0)).updates, 0);
    let mut now = at(10);
    (0..calls)
        .map(|_| {
            let call = (now.nanos() / 1_000_000, steps.advance(now).updates);
            now = now + Span::from_millis(20 * i64::try_from(call.1).unwrap());
            call
        })
        .collect()
}

#[test]
fn without_a_limit_an_overload_doubles_the_updates() {
    let steps = FixedStep::every(Span::from_millis(10)).unwrap().unlimited();
    assert_eq!(overload(steps, 6), [(10, 1), (30, 2), (70, 4), (150, 8), (310, 16), (630, 32)]);
}

#[test]
fn a_limit_stops_the_doubling() {
    let steps = FixedStep::every(Span::from_millis(10)).unwrap();
    assert_eq!(overload(steps.clone(), 5), [(10, 1), (30, 2), (70, 4), (150, 4), (230, 4)]);
    assert_eq!(overload(steps.excess(Excess::Discard), 5), [(10, 1), (30, 2), (70, 4), (150, 4), (230, 4)]);
}

#[test]
fn the_backlog_can_be_bounded() {
    let mut steps =
        FixedStep::every(Span::from_millis(10)).unwrap().excess(Excess::KeepUpTo(NonZeroU32::new(6).unwrap()));
    steps.advance(at(0));
    let frame = steps.advance(at(3_600_000));
    assert_eq!((frame.updates, frame.pending, frame.discarded), (4, 6, 359_990));
    let frame = steps.advance(at(3_600_000));
    assert_eq!((frame.updates, frame.pending, frame.render), (4, 2, false));
}

#[test]
fn a_clock_that_stops_or_goes_back_is_harmless() {
    let mut steps = FixedStep::every(Span::from_millis(10)).unwrap();
    assert!(steps.advance(at(100)).render, "the initial state");
    for millis in [100, 50, -1_000_000, 99, 100] {
        let frame = steps.advance(at(millis));
        assert_eq!((frame.updates, frame.render, frame.interpolation), (0, false, 0.0));
    }
    assert_eq!((steps.advance(at(115)).updates, steps.wait()), (1, Span::from_millis(5)));
    steps.resume(at(10));
    let frame = steps.advance(at(15));
    assert_eq!((frame.updates, frame.render), (1, true));
}

#[test]
fn the_render_cap_does_not_affect_updates() {
    let mut steps = FixedStep::new(Rate::new(200, 1).unwrap()).render_rate(Rate::new(30, 1).unwrap());
    let frames: Vec<_> = (0..=10_000).map(|millis| steps.advance(at(millis))).collect();
    assert_eq!(frames.iter().filter(|frame| frame.render).count(), 301);
    assert_eq!(frames.iter().map(|frame| frame.updates).sum::<u64>(), 2_000);
}

#[test]
fn snapping_gives_one_update_a_frame() {
    let rates = [15, 30, 60, 120, 144].map(|hertz| Rate::new(hertz, 1).unwrap());
    let plain = FixedStep::new(rates[2]);
    let mut snapping = plain.clone().snap(&rates, Span::from_micros(200));
    let mut plain = plain;
    let (mut now, mut uneven) = (Instant::ZERO, 0);
    snapping.advance(now);
    plain.advance(now);
    for frame in 0..100_000 {
        now = now + Span::from_nanos(16_666_667 + [150_000, -190_000, 40_000, 0, -7][frame % 5]);
        assert_eq!(snapping.advance(now).updates, 1);
        uneven += u32::from(plain.advance(now).updates != 1);
    }
    assert!(uneven > 1_000, "{uneven}");
    assert_eq!(snapping.drift(), Span::from_nanos(106_666));
    assert_eq!(plain.drift(), Span::ZERO);
}

#[test]
fn an_hour_at_60_hz_driven_by_144_hz_is_exact() {
    let (updates, frames) = (Rate::new(60, 1).unwrap(), Rate::new(144, 1).unwrap());
    let mut steps = FixedStep::new(updates);
    let total: u64 = (0..=144 * 3_600).map(|n| steps.advance(Instant::from_nanos(frames.offset(n))).updates).sum();
    assert_eq!(total, 60 * 3_600);
}

#[test]
fn the_limits_of_time_do_not_overflow() {
    let mut steps = FixedStep::new(Rate::new(1_000_000, 1).unwrap()).unlimited();
    for now in [Instant::from_nanos(i128::MIN), Instant::ZERO, Instant::MAX, Instant::MAX] {
        let frame = steps.advance(now);
        assert!((0.0..=1.0).contains(&frame.interpolation), "{frame:?}");
    }
    assert!(steps.wait() >= Span::ZERO);
}
