//! A pole that stands on a cart: how both move under a force on the cart. Arithmetic only; no clock is read.
//!
//! The equations and the numbers are those of A. G. Barto, R. S. Sutton and C. W. Anderson, "Neuronlike adaptive elements that can solve
//! difficult learning control problems", IEEE Transactions on Systems, Man, and Cybernetics 13 (1983), pages 834 to 846, appendix, with
//! gravity pointing down. One step is one of Runge and Kutta's fourth order: at 1 ms its error is far below what a sensor could tell.

use std::f64::consts::FRAC_PI_2;

/// Where the pole and its cart are, and how fast.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) position: f64, // of the cart, m, to the right of the middle
    pub(crate) speed: f64,    // of the cart, m/s
    pub(crate) angle: f64,    // of the pole, rad, to the right of upright
    pub(crate) rate: f64,     // of the pole, rad/s
}

impl State {
    /// The state on the straight way from this one to `after`: here at 0.0, there at 1.0.
    pub(crate) fn blend(self, after: Self, share: f64) -> Self {
        let between = |from: f64, to: f64| from + (to - from) * share;
        Self {
            position: between(self.position, after.position),
            speed: between(self.speed, after.speed),
            angle: between(self.angle, after.angle),
            rate: between(self.rate, after.rate),
        }
    }

    fn ahead(self, slopes: Self, seconds: f64) -> Self {
        Self {
            position: self.position + slopes.position * seconds,
            speed: self.speed + slopes.speed * seconds,
            angle: self.angle + slopes.angle * seconds,
            rate: self.rate + slopes.rate * seconds,
        }
    }
}

/// What cart and pole are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CartPole {
    pub(crate) cart_mass: f64,     // kg
    pub(crate) pole_mass: f64,     // kg, evenly along its length
    pub(crate) half_length: f64,   // of the pole, m
    pub(crate) gravity: f64,       // m/s²
    pub(crate) cart_friction: f64, // between cart and track, N
    pub(crate) pole_friction: f64, // in the hinge, N·m·s
}

impl CartPole {
    /// That of the paper: a pole of one metre.
    pub(crate) const USUAL: Self = Self {
        cart_mass: 1.0,
        pole_mass: 0.1,
        half_length: 0.5,
        gravity: 9.8,
        cart_friction: 0.0005,
        pole_friction: 0.000_002,
    };

    /// How fast each part of the state changes.
    fn slopes(&self, state: State, force: f64) -> State {
        let (sin, cos) = state.angle.sin_cos();
        let mass = self.cart_mass + self.pole_mass;
        let moment = self.pole_mass * self.half_length;
        // `signum` of a cart that stands is 1 or -1 as well.
        let friction = if state.speed == 0.0 { 0.0 } else { self.cart_friction * state.speed.signum() };
        let pushed = (force + moment * state.rate * state.rate * sin - friction) / mass;
        let angular = (self.gravity * sin - cos * pushed - self.pole_friction * state.rate / moment)
            / (self.half_length * (4.0 / 3.0 - self.pole_mass * cos * cos / mass));
        State { position: state.speed, speed: pushed - moment * angular * cos / mass, angle: state.rate, rate: angular }
    }

    /// The state `seconds` later, under a force in newtons that stays the same.
    pub(crate) fn step(&self, state: State, force: f64, seconds: f64) -> State {
        let first = self.slopes(state, force);
        let second = self.slopes(state.ahead(first, seconds / 2.0), force);
        let third = self.slopes(state.ahead(second, seconds / 2.0), force);
        let fourth = self.slopes(state.ahead(third, seconds), force);
        state
            .ahead(first, seconds / 6.0)
            .ahead(second, seconds / 3.0)
            .ahead(third, seconds / 3.0)
            .ahead(fourth, seconds / 6.0)
    }
}

/// The cart on a track with two ends, above a floor: what the equations do not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) plant: CartPole,
    pub(crate) state: State,
    pub(crate) has_fallen: bool,
}

impl World {
    /// From the middle of the track to either end, m.
    pub(crate) const TRACK: f64 = 2.4;

    /// The pole leans by three degrees; all stands still.
    pub(crate) const START: State = State { position: 0.0, speed: 0.0, angle: 0.052_36, rate: 0.0 };

    pub(crate) const fn new() -> Self {
        Self { plant: CartPole::USUAL, state: Self::START, has_fallen: false }
    }

    /// The world `seconds` later. At an end of the track the cart stops. A pole that lies stays there, and the cart with it.
    pub(crate) fn step(&mut self, force: f64, seconds: f64) {
        if self.has_fallen {
            return;
        }
        self.state = self.plant.step(self.state, force, seconds);
        if self.state.position.abs() >= Self::TRACK {
            self.state.position = self.state.position.clamp(-Self::TRACK, Self::TRACK);
            self.state.speed = 0.0;
        }
        if self.state.angle.abs() >= FRAC_PI_2 {
            let angle = FRAC_PI_2.copysign(self.state.angle);
            self.state = State { position: self.state.position, angle, ..State::default() };
            self.has_fallen = true;
        }
    }
}

/// A shove by someone who walks by, every four seconds from one side or the other: the force in newtons at this time in seconds.
pub(crate) fn shove(seconds: f64) -> f64 {
    let (every, lasts, strength) = (4.0, 0.1, 8.0);
    match (seconds / every).floor() {
        count if count < 1.0 || seconds - count * every >= lasts => 0.0,
        count => {
            if count % 2.0 == 0.0 {
                strength
            } else {
                -strength
            }
        }
    }
}
