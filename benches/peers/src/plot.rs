//! Lateness at p50 to p99.9 of every contender at 1 kHz, as an SVG.

use crate::report::of;
use crate::rounds::{Measured, Place};
use plotters::prelude::*;
use std::path::Path;

/// Draws it for the rate nearest to 1 kHz, without other load.
pub(crate) fn draw(measured: &Measured, path: &Path) -> Result<(), String> {
    let rates = measured.keys().filter(|place| place.tasks == 1 && !place.stressed).map(|place| place.rate);
    let Some(rate) = rates.min_by_key(|rate| rate.abs_diff(1_000)) else { return Ok(()) };
    let shown = |place: &Place| place.tasks == 1 && !place.stressed && place.rate == rate;
    let lines: Vec<_> = measured.iter().filter(|(place, _)| shown(place)).collect();
    let root = SVGBackend::new(path, (960, 540)).into_drawing_area();
    let drawn = (|| -> Result<(), Box<dyn std::error::Error>> {
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(format!("Late at the first reading of the clock, one task at {rate} Hz"), ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(0..2_i32, (0.01..10_000.0_f64).log_scale())?;
        chart
            .configure_mesh()
            .x_labels(3)
            .x_label_formatter(&|index| {
                ["p50", "p99", "p99.9"].get(usize::try_from(*index).unwrap_or(9)).unwrap_or(&"").to_string()
            })
            .y_desc("µs")
            .draw()?;
        for (index, (place, runs)) in lines.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            let points =
                (0..3).map(|at| (at, of(runs, |run| run.late[usize::try_from(at).unwrap_or(0)]).max(10.0) / 1e3));
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
                .label(place.kind.name())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
        root.present()?;
        Ok(())
    })();
    drawn.map_err(|error| error.to_string())
}
