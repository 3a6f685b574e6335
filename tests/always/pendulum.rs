//! `examples/pendulum`: its physics alone, and its loop on the virtual clock, where the load of the machine does not matter.
//! `tests/black_box/pendulum_runs.rs` tests the processes.

use crate::desk::Table;
use crate::pendulum_example::example;
use crate::physics::{CartPole, State, World};
use crate::row::Row;
use std::fs;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const CONFIGS: [&str; 3] = ["pendulum", "bad-policy", "slow-sensor"];

fn config(name: &str) -> String {
    fs::read_to_string(format!("{ROOT}/examples/pendulum/{name}.toml")).unwrap()
}

// The physics.

/// Kinetic and potential energy of a rod that turns about its end.
fn energy(plant: &CartPole, state: State) -> f64 {
    let &CartPole { cart_mass, pole_mass, half_length, gravity, .. } = plant;
    let State { speed, angle, rate, .. } = state;
    let moment = pole_mass * half_length;
    0.5 * (cart_mass + pole_mass) * speed * speed
        + moment * speed * rate * angle.cos()
        + 0.5 * (4.0 / 3.0) * moment * half_length * rate * rate
        + moment * gravity * angle.cos()
}

/// How fast a small angle grows while the cart is left alone, as `exp(this · time)`, in 1/s.
fn growth(plant: &CartPole) -> f64 {
    let mass = plant.cart_mass + plant.pole_mass;
    (plant.gravity / (plant.half_length * (4.0 / 3.0 - plant.pole_mass / mass))).sqrt()
}

const SMOOTH: CartPole = CartPole { cart_friction: 0.0, pole_friction: 0.0, ..CartPole::USUAL };

#[test]
fn without_force_and_friction_energy_and_momentum_stay() {
    let begin = State { angle: 0.5, rate: -1.0, speed: 0.7, ..State::default() };
    let momentum = |state: State| {
        (SMOOTH.cart_mass + SMOOTH.pole_mass) * state.speed
            + SMOOTH.pole_mass * SMOOTH.half_length * state.rate * state.angle.cos()
    };
    let mut state = begin;
    // It turns over several times.
    for _ in 0..20_000 {
        state = SMOOTH.step(state, 0.0, 0.001);
    }
    assert!((energy(&SMOOTH, state) - energy(&SMOOTH, begin)).abs() < 1e-9, "{state:?}");
    assert!((momentum(state) - momentum(begin)).abs() < 1e-9, "{state:?}");
    // With friction the energy falls, and a push adds its work.
    let rubbed = (0..20_000).fold(begin, |state, _| CartPole::USUAL.step(state, 0.0, 0.001));
    assert!(energy(&SMOOTH, rubbed) < energy(&SMOOTH, begin));
}

#[test]
fn a_force_does_work() {
    let (mut state, mut work) = (State { angle: 0.1, ..State::default() }, 0.0);
    let before = energy(&SMOOTH, state);
    for _ in 0..1_000 {
        let next = SMOOTH.step(state, 3.0, 0.001);
        work += 3.0 * (next.position - state.position);
        state = next;
    }
    assert!((energy(&SMOOTH, state) - before - work).abs() < 1e-9);
}

#[test]
fn left_alone_it_falls_as_fast_as_theory_says() {
    // From rest, a small angle is the initial angle times cosh(growth · t), until it is no longer small.
    let (mut state, start) = (State { angle: 1_f64.to_radians(), ..State::default() }, 1_f64.to_radians());
    let mut steps = 0_u32;
    while state.angle < 8_f64.to_radians() {
        state = SMOOTH.step(state, 0.0, 0.001);
        steps += 1;
        let wanted = start * (growth(&SMOOTH) * f64::from(steps) * 0.001).cosh();
        assert!((state.angle / wanted - 1.0).abs() < 0.01, "{state:?} after {steps} ms, in theory {wanted}");
    }
    let wanted = 8_f64.acosh() / growth(&SMOOTH);
    assert!((f64::from(steps) * 0.001 - wanted).abs() < 0.005, "{steps} ms, in theory {wanted} s");
    // Upright and at rest it stays, unless the slightest disturbance comes.
    assert_eq!(SMOOTH.step(State::default(), 0.0, 0.001), State::default());
}

#[test]
fn the_world_ends_at_the_track_and_at_the_floor() {
    let mut world = World::new();
    world.state.angle = -0.01;
    for _ in 0..5_000 {
        world.step(10.0, 0.001);
        assert!(world.state.position.abs() <= World::TRACK && world.state.angle.abs() <= std::f64::consts::FRAC_PI_2);
    }
    assert!(world.has_fallen && world.state.rate == 0.0 && world.state.speed == 0.0, "{world:?}");
    let lies = world.state;
    world.step(-10.0, 0.001);
    assert_eq!(world.state, lies);
}

#[test]
fn what_is_told_between_the_processes_is_read_as_it_was_written() {
    let state = State { position: -0.25, speed: 1e-9, angle: 1.25, rate: -123.456 };
    let (mut text, mut other) = (String::new(), String::new());
    crate::row::pole(&mut text, 7, state);
    crate::row::pole(&mut other, 123_456_789_012, State { rate: 1e12, ..State::default() });
    assert_eq!(text.len(), other.len(), "{text}{other}");
    assert!(text.starts_with("step 000000000007\nposition -0000.25000000\n") && text.ends_with("check 000000000007\n"));
    for fell in [None, Some(5)] {
        let row = Row { steps: 3, discarded: 1, free: 2, fell, state, force: -0.5, shove: 8.0 };
        assert_eq!(Row::read(&row.line()), Some(row));
    }
    assert_eq!(Row::read("1 2 3"), None);
    for (text, force) in [("1.5\n", Some(1.5)), ("-10\n\n\n", Some(-10.0)), ("", None), ("1.5", None), ("NaN\n", None)]
    {
        assert_eq!(crate::row::force(text.as_bytes()), force, "{text:?}");
    }
}

// The simulated loop.

/// The four gains of the controller: of position, speed, angle and rate.
fn gains(config: &str) -> [f64; 4] {
    let expression = config.lines().find_map(|line| line.strip_prefix("expression = \"(")).unwrap();
    let terms: Vec<f64> = expression
        .split(" * ")
        .map(|term| term.rsplit(' ').next().unwrap())
        .filter_map(|word| word.parse().ok())
        .collect();
    terms.try_into().unwrap()
}

/// The longest delay between state and force with which the loop is stable, in seconds: the remaining phase at the frequency at which the
/// loop has a gain of 1.
fn delay_margin([x, v, angle, rate]: [f64; 4]) -> f64 {
    // Upright, the angle's acceleration is grows · angle − turns · force; the cart's is pushes · force − leans · angle.
    let &CartPole { cart_mass, pole_mass, half_length, .. } = &CartPole::USUAL;
    let mass = cart_mass + pole_mass;
    let grows = growth(&CartPole::USUAL).powi(2);
    let turns = grows / (CartPole::USUAL.gravity * mass);
    let share = pole_mass * half_length / mass;
    let (pushes, leans) = (1.0 / mass + share * turns, share * grows);
    // The angle and the position caused by a force at frequency w; then the real and the imaginary part of the returned force.
    let back = |w: f64| {
        let of_angle = turns / (w * w + grows);
        let of_position = (leans * of_angle - pushes) / (w * w);
        (x * of_position + angle * of_angle, w * (v * of_position + rate * of_angle))
    };
    let gain = |w: f64| back(w).0.hypot(back(w).1);
    let crossings =
        (1..200_000).map(|n| f64::from(n) * 0.001).filter(|w| (gain(*w) - 1.0) * (gain(w + 0.001) - 1.0) <= 0.0);
    let delays = crossings.map(|w| back(w).1.atan2(back(w).0).rem_euclid(std::f64::consts::TAU) / w);
    delays.fold(f64::INFINITY, f64::min)
}

#[test]
fn the_delay_that_the_configuration_claims_to_bear_is_that_of_theory() {
    for name in CONFIGS {
        let text = config(name);
        let margin = delay_margin(gains(&text));
        assert!(text.contains(&format!("bears a delay of {:.0} ms", margin * 1_000.0)), "{name}: {margin} s");
    }
    assert!(delay_margin(gains(&config("pendulum"))) > 0.05, "above max-latency");
}

/// Simulates a configuration with `hertzd simulate`, with the plant in place of the sensor. Returns the angle at each step.
fn angles(name: &str, length: &str, more: &str) -> Option<Vec<f64>> {
    let example = example()?;
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.toml");
    fs::write(&source, config(name) + more).unwrap();
    let desk = Command::new(example).arg("desk").arg(source).output().unwrap();
    assert!(desk.status.success(), "{desk:?}");
    let path = folder.path().join("desk.toml");
    fs::write(&path, &desk.stdout).unwrap();
    let output =
        Command::new(example).arg("simulate").arg(path).args(["--for", length, "--csv", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = Table::read(&String::from_utf8(output.stdout).unwrap());
    Some(table.values("plant", "angle [rad]"))
}

fn worst(angles: &[f64]) -> f64 {
    angles.iter().fold(0.0, |worst, angle| angle.abs().max(worst))
}

#[test]
fn on_the_virtual_clock_it_stands_and_with_the_slow_sensor_it_falls() {
    let Some(stands) = angles("pendulum", "60s", "") else { return };
    // It begins at 3°; each shove moves it by less than 6°.
    assert_eq!(stands.len(), 60_000);
    assert!(worst(&stands) < 0.1, "{}", worst(&stands));
    // The policy does not affect the virtual clock, on which the CPU is never busy.
    assert_eq!(angles("bad-policy", "60s", "").unwrap(), stands);
    // The mean age of the value used is half the sensor's period: 100 ms exceed the margin.
    let falls = angles("slow-sensor", "60s", "").unwrap();
    assert_eq!(worst(&falls), std::f64::consts::FRAC_PI_2);
}

#[test]
fn on_the_virtual_clock_a_worker_that_wakes_late_lets_it_fall() {
    let late = |oversleep: &str| {
        angles("pendulum", "60s", &format!("\n[worker.main.simulate]\noversleep = [\"{oversleep}\"]\n"))
    };
    let Some(a_little) = late("5ms") else { return };
    assert!(worst(&a_little) < 0.15, "{}", worst(&a_little));
    assert_eq!(worst(&late("300ms").unwrap()), std::f64::consts::FRAC_PI_2);
}
