//! Rows that a tombstone deletes, as an expression over the columns that all tables have.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, ident, lit, not};

use crate::table::record::{Label, RowSelector};

/// The rows that stay.
pub(super) fn kept(deleted: &RowSelector) -> Expr {
    match deleted {
        RowSelector::Everything => lit(false),
        RowSelector::ExceptServices(kept) => {
            let kept = kept.iter().map(|service| text(service)).collect();
            column(Label::Service).in_list(kept, false)
        }
        RowSelector::Matching(labels) => {
            let equal = labels
                .iter()
                .map(|(&label, value)| column(label).eq(text(value)));
            equal.reduce(Expr::and).map_or_else(|| lit(false), not)
        }
    }
}

/// A label as a literal, of the type that its column is read as.
fn text(value: &str) -> Expr {
    lit(ScalarValue::Utf8View(Some(value.to_owned())))
}

fn column(label: Label) -> Expr {
    ident(match label {
        Label::Service => "service",
        Label::Version => "version",
        Label::Deployment => "deployment",
        Label::Type => "type",
    })
}
