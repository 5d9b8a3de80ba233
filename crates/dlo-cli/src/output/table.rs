//! Aligned columns. Widths are counted in characters; the last column is never padded.

use super::{Tone, clean};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

#[derive(Debug)]
struct Cell {
    text: String,
    tone: Option<Tone>,
}

/// A table that grows row by row.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: one text a column, cleaned; missing ones are empty.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|text| Cell { text: clean(text.as_ref()), tone: None }).collect();
        self.rows.push(cells);
    }

    /// Gives the cell of the latest row in `column` a tone.
    pub(crate) fn tone(&mut self, column: usize, tone: Tone) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.get_mut(column)) {
            cell.tone = Some(tone);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, painted by `paint`: padding stands outside of the colour.
    pub(crate) fn lines(&self, paint: impl Fn(&str, Tone) -> String) -> Vec<String> {
        let widths = self.widths();
        let heads = self.columns.iter().map(|(name, _)| ((*name).to_string(), Some(Tone::Quiet)));
        let mut lines = vec![self.line(&widths, heads.collect(), &paint)];
        for row in &self.rows {
            let cells = row.iter().map(|cell| (cell.text.clone(), cell.tone)).collect();
            lines.push(self.line(&widths, cells, &paint));
        }
        lines
    }

    fn widths(&self) -> Vec<usize> {
        let width = |index: usize| {
            let cells =
                self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.chars().count());
            cells.chain([self.columns[index].0.chars().count()]).max().unwrap_or(0)
        };
        (0..self.columns.len()).map(width).collect()
    }

    fn line(
        &self,
        widths: &[usize],
        cells: Vec<(String, Option<Tone>)>,
        paint: &impl Fn(&str, Tone) -> String,
    ) -> String {
        let mut line = String::new();
        for (index, (text, tone)) in cells.into_iter().enumerate().take(widths.len()) {
            let padding = " ".repeat(widths[index].saturating_sub(text.chars().count()));
            let painted = tone.map_or_else(|| text.clone(), |tone| paint(&text, tone));
            if index > 0 {
                line.push_str("  ");
            }
            match self.columns[index].1 {
                Align::Left => line.push_str(&format!("{painted}{padding}")),
                Align::Right => line.push_str(&format!("{padding}{painted}")),
            }
        }
        line.trim_end().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters_and_padding_stays_outside_of_colours() {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right), ("TEXT", Align::Left)]);
        table.row(["Straße", "5", "x"]);
        table.tone(0, Tone::Bad);
        table.row(["a", "1,000", "line\nbreak"]);
        let lines = table.lines(|text, tone| match tone {
            Tone::Bad => format!("<{text}>"),
            Tone::Good | Tone::Warn | Tone::Quiet | Tone::Strong => text.to_string(),
        });
        assert_eq!(lines, ["NAME        N  TEXT", "<Straße>      5  x", "a       1,000  line break"]);
    }
}
