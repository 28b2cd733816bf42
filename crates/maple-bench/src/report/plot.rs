//! Charts as SVG files: lines through points, either axis plain or logarithmic.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title, which is also the name of the file.
    pub title: String,
    /// The quantity of the horizontal axis, with its unit.
    pub x: String,
    /// The quantity of the vertical axis, with its unit.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// Labels at 0, 1, 2, … of a linear horizontal axis, instead of numbers.
    pub labels: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
}

/// A line through points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points. On a logarithmic axis they must be positive.
    pub points: Vec<(f64, f64)>,
}

/// The reason why there is no chart.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The folder cannot be created.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The chart cannot be drawn or written.
    #[error("{}: {what}", path.display())]
    Drawing {
        /// The chart's file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
}

const PIXELS: (u32, u32) = (900, 600);

/// Colours that people can distinguish, even if they are red-green colour-blind (Okabe and Ito 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

impl Chart {
    /// Writes `NAME.svg` into a folder, which is created if it does not exist, and returns the path. The name is the
    /// title in small letters, with hyphens.
    ///
    /// # Errors
    /// [`PlotError`] if the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, PlotError> {
        fs::create_dir_all(folder).map_err(|source| PlotError::Folder { path: folder.to_path_buf(), source })?;
        let path = folder.join(format!("{}.svg", file_name(&self.title)));
        let drawn = self.draw(SVGBackend::new(&path, PIXELS).into_drawing_area());
        drawn.map_err(|error| PlotError::Drawing { path: path.clone(), what: error.to_string() })?;
        Ok(path)
    }

    fn draw<B: DrawingBackend>(&self, area: Area<B>) -> Result<(), Failure<B>> {
        let x = self.extent(|point| point.0, self.log_x);
        let y = self.extent(|point| point.1, self.log_y);
        // The types of the axes differ.
        match (self.log_x, self.log_y) {
            (false, false) => self.draw_on(area, x, y),
            (false, true) => self.draw_on(area, x, decades(y)),
            (true, false) => self.draw_on(area, decades(x), y),
            (true, true) => self.draw_on(area, decades(x), decades(y)),
        }
    }

    fn draw_on<B, X, Y>(&self, area: Area<B>, x: X, y: Y) -> Result<(), Failure<B>>
    where
        B: DrawingBackend,
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 22))
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(84)
            .build_cartesian_2d(x, y)?;
        let axes = |value: &f64| short(*value);
        let words = |value: &f64| self.label(*value);
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(&self.x)
            .y_desc(&self.y)
            .x_labels(self.labels.len().max(12))
            .x_label_formatter(&words)
            .y_label_formatter(&axes);
        mesh.light_line_style(WHITE.mix(0.0)).label_style(("sans-serif", 14)).draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)).point_size(3);
            let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2));
            chart.draw_series(line)?.label(&series.name).legend(key);
        }
        let mut key = chart.configure_series_labels();
        // The upper left is usually free, because most curves rise to the right.
        key.position(SeriesLabelPosition::UpperLeft);
        key.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).label_font(("sans-serif", 14)).draw()?;
        area.present()
    }

    fn label(&self, value: f64) -> String {
        if self.labels.is_empty() {
            return short(value);
        }
        let label = self.labels.get(value.round() as usize).filter(|_| value.fract().abs() < 1e-6);
        label.cloned().unwrap_or_default()
    }

    /// Returns the range from the least to the greatest value; from 0 on a linear axis.
    fn extent(&self, value: impl Fn(&(f64, f64)) -> f64, log: bool) -> Range<f64> {
        let values = || self.series.iter().flat_map(|series| &series.points).map(&value).filter(|v| v.is_finite());
        let (least, greatest) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        match (log, greatest > 0.0) {
            (true, true) => least.max(greatest * 1e-12)..greatest * 1.1,
            (true, false) => 1.0..10.0,
            (false, true) => 0.0..greatest * 1.05,
            (false, false) => 0.0..1.0,
        }
    }
}

type Area<B> = DrawingArea<B, plotters::coord::Shift>;
type Failure<B> = DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>;

/// Returns a logarithmic axis with whole decades.
fn decades(range: Range<f64>) -> LogCoord<f64> {
    let (first, last) = (range.start.log10().floor() as i32, range.end.log10().ceil() as i32);
    (10f64.powi(first)..10f64.powi(last)).log_scale().into()
}

/// Writes a number as the label of an axis: 1500 as `1.5k`.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn file_name(title: &str) -> String {
    let mut name = String::new();
    for letter in title.to_lowercase().chars() {
        if letter.is_ascii_alphanumeric() {
            name.push(letter);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_matches('-').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_an_svg_with_its_words_on_every_kind_of_axis() {
        let folder = tempfile::tempdir().unwrap();
        for (log_x, log_y) in [(false, false), (false, true), (true, false), (true, true)] {
            let series = vec![
                Series { name: "ours".into(), points: vec![(1.0, 10.0), (10.0, 2000.0)] },
                Series { name: "theirs".into(), points: vec![(1.0, 50.0), (10.0, 100_000.0)] },
            ];
            let title = format!("Cost & size ({log_x}, {log_y})");
            let chart = Chart { title, x: "rules".into(), y: "µs".into(), log_x, log_y, labels: vec![], series };
            let path = chart.write(folder.path()).unwrap();
            assert_eq!(path, folder.path().join(format!("cost-size-{log_x}-{log_y}.svg")));
            let svg = std::fs::read_to_string(path).unwrap();
            assert!(
                svg.starts_with("<svg")
                    && ["Cost &amp; size", "ours", "theirs", "rules"].iter().all(|w| svg.contains(w))
            );
        }
    }

    #[test]
    fn a_chart_without_points_is_drawn_all_the_same() {
        let chart = Chart {
            title: "none".into(),
            x: String::new(),
            y: String::new(),
            log_x: true,
            log_y: true,
            labels: vec![],
            series: vec![],
        };
        assert!(chart.write(tempfile::tempdir().unwrap().path()).is_ok());
    }

    #[test]
    fn numbers_at_axes_are_short() {
        assert_eq!([0.0, 0.5, 12.0, 1500.0, 2e6, 3e9].map(short), ["0", "0.5", "12", "1.5k", "2M", "3G"]);
    }
}
