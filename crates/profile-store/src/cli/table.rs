//! Text in columns, for people.

use std::fmt;

/// Where the cells of a column begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Rows of cells; each column is as wide as its widest cell.
#[derive(Clone, Debug)]
pub(super) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a row of headings; columns of numbers have a `>` before theirs.
    pub(super) fn new(headings: &[&str]) -> Self {
        let (mut sides, mut first) = (Vec::new(), Vec::new());
        for heading in headings {
            let number = heading.strip_prefix('>');
            sides.push(number.map_or(Side::Left, |_| Side::Right));
            first.push(number.unwrap_or(heading).to_owned());
        }
        Self {
            sides,
            rows: vec![first],
        }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.sides.len())
            .map(|place| self.width(place))
            .collect();
        for row in &self.rows {
            let cells = row.iter().zip(&self.sides).zip(&widths);
            let line: Vec<String> = cells
                .map(|((cell, side), width)| match side {
                    Side::Left => format!("{cell:<width$}"),
                    Side::Right => format!("{cell:>width$}"),
                })
                .collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_their_column_ends() {
        let mut table = Table::new(&[">SELF", "FUNCTION"]);
        table.row(vec!["7 s".to_owned(), "main".to_owned()]);
        table.row(vec!["1,000 s".to_owned(), String::new()]);
        assert_eq!(
            table.to_string(),
            "   SELF  FUNCTION\n    7 s  main\n1,000 s\n"
        );
    }
}
