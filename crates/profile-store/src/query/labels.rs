//! Which labels there are, which values they have, and which types of profile.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::logical_expr::ident;

use super::Queries;
use super::columns::texts;
use super::failure::QueryError;
use super::question::{Question, TOTAL_LABELS};
use super::scan;
use crate::engine::EngineError;
use crate::rows::CPU;

/// The labels of the selected series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// How many series there are.
    pub series: u64,
    /// The values of each label; `""` where some series lack it.
    pub values: BTreeMap<String, BTreeSet<String>>,
}

impl Queries {
    /// The labels of the series that are selected, of the hours that the window has something of.
    ///
    /// # Errors
    /// If the dictionary cannot be read.
    pub async fn labels(&self, question: &Question) -> Result<Labels, QueryError> {
        let series = self.series_of(question).await?;
        let mut labels = Labels::default();
        let mut of_label: BTreeMap<&str, u64> = BTreeMap::new();
        for series in series.values() {
            labels.series += 1;
            for (name, value) in series.labels() {
                *of_label.entry(name).or_default() += 1;
                let values = labels.values.entry(name.to_owned()).or_default();
                if !values.contains(value) {
                    values.insert(value.to_owned());
                }
            }
        }
        for (name, values) in &mut labels.values {
            if of_label.get(name.as_str()) != Some(&labels.series) {
                values.insert(String::new());
            }
        }
        Ok(labels)
    }

    /// The types of profile of the services, versions and deployments that are selected, CPU time first; other labels are not looked at.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub async fn types(&self, question: &Question) -> Result<Vec<String>, QueryError> {
        let reading = self.readings.read(question.window.hours()).await?;
        let mut rows = self.engine.totals(&reading)?;
        for name in TOTAL_LABELS {
            if let Some(values) = question.selector.values_of(name) {
                rows = rows
                    .filter(scan::one_of(name, &values))
                    .map_err(EngineError::from)?;
            }
        }
        let rows = rows
            .select(vec![ident("type")])
            .map_err(EngineError::from)?;
        let rows = rows.distinct().map_err(EngineError::from)?;
        let batches = self.engine.run(async move { rows.collect().await }).await?;
        let mut types = BTreeSet::new();
        for batch in batches.map_err(EngineError::from)? {
            let found = texts(&batch, "type")?.iter().flatten();
            types.extend(found.map(str::to_owned));
        }
        let mut types: Vec<String> = types.into_iter().collect();
        types.sort_by_key(|name| name != CPU);
        Ok(types)
    }
}
