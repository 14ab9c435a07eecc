//! Every metric, declared once; docs/metrics.md says what each means and who watches it.

/// What Prometheus scrapes.
#[derive(Debug, Default)]
pub struct Metrics {}
