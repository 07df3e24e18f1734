//! The cells of one table, kept until it ends, because only then is it known how wide it is.
//!
//! A table that turns out to arrange a page instead of holding data is dissolved: its cells become lines. Knows nothing of
//! HTML; whoever reads the page starts and ends rows and cells.

use super::writer::{Gap, Style, Writer};

/// More columns are an arrangement of boxes.
const COLUMNS_MAX: usize = 50;

/// More cells, or longer ones, are not held.
const CELLS_MAX: usize = 50_000;
const BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Default)]
pub(super) struct Grid {
    rows: Vec<Vec<Cell>>,
    /// The cell that is being written.
    pub(super) cell: Option<Writer>,
    span: usize,
    cells: usize,
    bytes: usize,
}

struct Cell {
    text: String,
    span: usize,
}

impl Grid {
    pub(super) fn is_too_large(&self) -> bool {
        CELLS_MAX <= self.cells || BYTES_MAX <= self.bytes
    }

    pub(super) fn start_row(&mut self) {
        self.end_cell();
        if self.rows.last().is_none_or(|row| !row.is_empty()) {
            self.rows.push(Vec::new());
        }
    }

    pub(super) fn start_cell(&mut self, writer: Writer, span: usize) {
        self.end_cell();
        self.cell = Some(writer);
        self.span = span.clamp(1, COLUMNS_MAX);
        self.cells += 1;
    }

    pub(super) fn end_cell(&mut self) {
        let Some(cell) = self.cell.take() else { return };
        let (text, _) = cell.finish();
        self.bytes += text.len();
        if self.rows.is_empty() {
            self.rows.push(Vec::new());
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(Cell { text, span: self.span });
        }
    }

    pub(super) fn write(mut self, root: &mut Writer, style: Style) {
        self.end_cell();
        self.rows.retain(|row| row.iter().any(|cell| !cell.text.is_empty()));
        let columns = self.rows.iter().map(|row| row.iter().map(|cell| cell.span).sum::<usize>()).max().unwrap_or(0);
        if !(2..=COLUMNS_MAX).contains(&columns) || self.rows.len() < 2 {
            return self.dissolve(root);
        }
        if style.is_plain() {
            let lines: Vec<String> = self.rows.iter().map(|row| joined(row)).collect();
            return root.lines(lines.iter().map(String::as_str));
        }
        let line = |row: &Vec<Cell>| {
            let mut line = String::from("|");
            let mut column = 0;
            for cell in row {
                line.push_str(&format!(" {} |{}", cell.text, " |".repeat(cell.span - 1)));
                column += cell.span;
            }
            line.push_str(&" |".repeat(columns - column));
            line
        };
        let mut lines: Vec<String> = self.rows.iter().map(line).collect();
        lines.insert(1, format!("|{}", " --- |".repeat(columns)));
        root.lines(lines.iter().map(String::as_str));
    }

    /// The cells as lines, one row after the other.
    pub(super) fn dissolve(mut self, root: &mut Writer) {
        let current = self.cell.take().map(|cell| cell.finish().0).unwrap_or_default();
        let lines = self.rows.iter().map(|row| joined(row)).chain([current]);
        for line in lines.filter(|line| !line.is_empty()) {
            for piece in line.split("<br>") {
                root.gap(Gap::Line);
                root.text(piece);
            }
        }
        root.gap(Gap::Line);
    }
}

fn joined(row: &[Cell]) -> String {
    row.iter().map(|cell| cell.text.as_str()).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" | ")
}
