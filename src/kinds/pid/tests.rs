//! A controller whose output is held back, in a loop with the output's own law.

use super::super::elapsed::{Elapsed, Row};
use super::law::{Action, AntiWindup, Gains, Held, Law, Mode, Settings, Step};
use crate::kinds::output::law as output;
use crate::kinds::tests::bench::{Bench, NOTHING, good};
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND: Elapsed = Elapsed { skipped: 0, seconds: 1.0, gap: false, may_wait: true };

fn controller(limits: [f64; 2]) -> Law {
    Law::new(Settings {
        gains: Gains { kp: 0.5, ki: 0.25, kd: 0.0 },
        action: Action::Reverse,
        setpoint_weight: 1.0,
        deadband: 0.0,
        derivative_filter: 0.0,
        limits,
        anti_windup: AntiWindup::Conditional,
        takeover: None,
    })
}

fn learned(error: f64, applied: f64, held: Held) -> Step {
    let (mode, row) = (Mode::Automatic, Row::Next(1.0));
    Step { mode, elapsed: SECOND, input: -error, row, setpoint: 0.0, feed_forward: 0.0, applied: Some(applied), held }
}

/// An output that has just applied `applied` and follows its input.
fn following(limits: [f64; 2], slew: f64, recover: output::Recover, applied: f64) -> output::Law {
    let (safe, safe_slew, on_stale) = (Some(-2.0), f64::INFINITY, output::OnStale::Safe);
    let settings = output::Settings { limits, slew, safe, safe_slew, on_stale, recover, patience: 0.0 };
    output::Law::going_on(settings, applied)
}

/// What happens to a request at one tick of an output.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Comes,
    /// The output does not see the request, because it is too old.
    Stale,
    /// The write fails.
    Fails,
    /// Another thread has switched the output to its safe value.
    Tripped,
}

fn tick(output: &mut output::Law, asked: f64, fate: Fate, reset: bool) -> Held {
    let input = if matches!(fate, Fate::Stale) { f64::NAN } else { asked };
    let tripped = matches!(fate, Fate::Tripped);
    match output.step(&output::Step {
        input,
        is_none: false,
        is_missing: false,
        tripped,
        reset: Some(reset),
        elapsed: 1.0,
    }) {
        output::Wanted::Value(value) | output::Wanted::Ramp(value) if !matches!(fate, Fate::Fails) => {
            output.put_out(value);
        }
        output::Wanted::Safe if !matches!(fate, Fate::Fails) => output.put_out_safe(-2.0),
        _ => (),
    }
    Held::of(output.held_back(input))
}

/// The integral after each of these ticks, for an output that holds 0 and follows at once, except as `fate` says.
fn integrals(mut output: output::Law, errors: &[f64], mut fate: impl FnMut(usize) -> (Fate, bool)) -> Vec<[f64; 3]> {
    let (mut controller, mut held) = (controller([-8.0, 8.0]), Held::No);
    let mut seen = Vec::new();
    for (n, error) in errors.iter().enumerate() {
        let applied = output.applied();
        let put_out = controller.step(&learned(*error, applied, held));
        seen.push([put_out.i, put_out.out, applied]);
        let (fate, reset) = fate(n);
        held = tick(&mut output, put_out.out, fate, reset);
    }
    seen
}

#[test]
fn the_error_needs_only_the_input_and_the_setpoint() {
    let mut controller = controller([-8.0, 8.0]);
    let whole = controller.step(&learned(1.0, 0.0, Held::No));
    let gone = f64::NAN;
    let without = controller.step(&Step { feed_forward: gone, ..learned(2.0, 0.0, Held::No) });
    assert_eq!((without.out, without.waits, without.error), (whole.out, true, 2.0), "the feed-forward is missing");
    let without = controller.step(&Step { setpoint: gone, ..learned(2.0, 0.0, Held::No) });
    assert!(without.out.total_cmp(&whole.out).is_eq() && without.waits && without.error.is_nan(), "{without:?}");
}

#[test]
fn the_integral_stands_while_the_output_is_safe_and_goes_on_with_it() {
    let mut errors = vec![0.0; 2];
    errors.extend([1.0; 1_000]); // all of these at the safe value
    errors.extend([1.0; 2]);
    let output = following([-8.0, 8.0], f64::INFINITY, output::Recover::Latch, 0.0);
    let seen = integrals(output, &errors, |n| (if n == 2 { Fate::Tripped } else { Fate::Comes }, n == 1_001));
    // At tick 2 the controller did not know of the trip yet, so it made one step, and none afterwards.
    let [at_first, at_last] = [2, 1_001].map(|n| seen[n][0]);
    assert_eq!((at_first, at_last), (0.25, 0.25), "{:?}", &seen[..6]);
    assert_eq!((seen[1_001][1], seen[1_001][2]), (0.75, -2.0), "held at the safe value");
    assert_eq!([seen[1_002], seen[1_003]].map(|[i, _, applied]| (i, applied)), [(0.5, 0.75), (0.75, 1.0)]);
}

#[test]
fn of_a_step_that_leads_back_nothing_is_held() {
    for (held, error, wanted) in [
        (Held::Below, 1.0, 0.0),
        (Held::Below, -1.0, -0.25),
        (Held::Above, -1.0, 0.0),
        (Held::Above, 1.0, 0.25),
        (Held::Altogether, 1.0, 0.0),
        (Held::Altogether, -1.0, 0.0),
        (Held::No, 1.0, 0.25),
        (Held::of(f64::NAN), 1.0, 0.25),
        (Held::of(1.0), 1.0, 0.0),
        (Held::of(-1.0), -1.0, 0.0),
        (Held::of(2.0), -1.0, 0.0),
    ] {
        let mut controller = controller([-8.0, 8.0]);
        controller.step(&learned(0.0, 0.0, Held::No));
        let put_out = controller.step(&learned(error, 0.0, held));
        assert_eq!((put_out.i, put_out.p, put_out.saturated), (wanted, 0.5 * error, 0.0), "{held:?} at {error}");
    }
}

proptest! {
    #[test]
    fn no_step_of_the_integral_leads_away_from_what_is_put_out(
        errors in vec(-4.0..4.0, 1..60),
        fates in vec(prop_oneof![8 => Just(Fate::Comes), 1 => Just(Fate::Stale), 1 => Just(Fate::Fails), 1 => Just(Fate::Tripped)], 60),
        resets in vec(any::<bool>(), 60),
        high in 0.5..9.0,
        slew in prop_oneof![Just(f64::INFINITY), 0.05..4.0],
        latches in any::<bool>(),
    ) {
        let recover = if latches { output::Recover::Latch } else { output::Recover::Auto(3.0) };
        let output = following([-1.0, high], slew, recover, 0.0);
        let seen = integrals(output, &errors, |n| (fates[n], resets[n]));
        for n in 1..seen.len() {
            let ([before, asked, _], [now, _, applied]) = (seen[n - 1], seen[n]);
            // Held by the output, which reacted to the request of the previous tick.
            prop_assert!((now - before) * (asked - applied) <= 0.0, "tick {n}: {seen:?}");
            prop_assert!(now == before || !matches!(fates[n - 1], Fate::Stale), "tick {n}: {seen:?}");
        }
    }

    #[test]
    fn an_output_that_follows_stops_nothing_however_it_rounds(errors in vec(-4.0..4.0, 1..60), steps in 1.0..300.0_f64) {
        // The value in the target is rounded; the value that the output reports is not.
        let output = following([-8.0, 8.0], f64::INFINITY, output::Recover::Latch, 0.0);
        let told = integrals(output, &errors, |_| (Fate::Comes, false));
        let (mut alone, mut applied) = (controller([-8.0, 8.0]), 0.0);
        for (error, [i, out, _]) in errors.iter().zip(told) {
            let put_out = alone.step(&learned(*error, applied, Held::No));
            prop_assert_eq!((put_out.i, put_out.out), (i, out));
            applied = (put_out.out * steps).round() / steps;
        }
    }

    #[test]
    fn in_the_steady_state_a_target_that_rounds_is_at_the_step_next_to_what_is_wanted(wanted in -6.0..6.0_f64, steps in 1_u32..300) {
        // A plant that equals the output, rounded to whole steps, and its wanted value.
        let steps = f64::from(steps);
        let mut output = following([-8.0, 8.0], f64::INFINITY, output::Recover::Latch, 0.0);
        let (mut controller, mut held) = (controller([-8.0, 8.0]), Held::No);
        let (mut latest, mut sum) = (Vec::new(), 0.0);
        for n in 0..6_000 {
            let really = (output.applied() * steps).round() / steps;
            let put_out = controller.step(&learned(wanted - really, output.applied(), held));
            held = tick(&mut output, put_out.out, Fate::Comes, false);
            if n >= 3_000 {
                latest.push(really);
                sum += really;
            }
        }
        prop_assert!(latest.iter().all(|really| (really - wanted).abs() <= 1.0 / steps + 1e-9), "{latest:?}");
        prop_assert!((sum / 3_000.0 - wanted).abs() <= 0.01, "on average {}", sum / 3_000.0);
    }
}

#[test]
fn manual_lasts_while_it_has_nothing_new() {
    let section = "input = 20\nsetpoint = 25\nkp = 0.01\nlimits = [0, 1]\nmanual = \"s.a\"\n";
    let mut bench = Bench::new("pid", section, 0);
    let rows = [NOTHING, good(0.9), NOTHING, NOTHING, good(0.8), NOTHING, NOTHING, NOTHING, NOTHING, NOTHING];
    let out = rows.map(|row| bench.tick(&[row])[0].0);
    // Until its first value the controller is automatic, and again when it has had nothing new for 3.5 s.
    assert_eq!(out, [0.05, 0.9, 0.9, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8, 0.05]);
}
