//! Labels by configured patterns, for programs that say nothing about themselves.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

use super::reading::Evidence;

/// A rule as it is configured. All patterns that are given have to match, each the whole text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSettings {
    /// A pattern for the path of the executable.
    pub executable: Option<String>,
    /// A pattern for the path of the control group.
    pub cgroup: Option<String>,
    /// A pattern for the command line, its arguments with a space between.
    pub command_line: Option<String>,
    /// What a process that fits gets.
    pub labels: BTreeMap<String, String>,
}

/// A rule that can be asked.
#[derive(Clone, Debug)]
pub struct Rule {
    executable: Option<Regex>,
    cgroup: Option<Regex>,
    command_line: Option<Regex>,
    pub(super) attributes: Vec<(String, String)>,
}

/// Why a rule cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRuleError {
    /// A pattern is no regular expression.
    #[error("{pattern:?} is no regular expression")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// It would fit everything: that is what the labels of the host are for.
    #[error("a rule without a pattern: give executable, cgroup or command_line")]
    NoPattern,
    /// It would change nothing.
    #[error("a rule without labels")]
    NoLabels,
}

impl Rule {
    /// The rule, with its patterns understood.
    ///
    /// # Errors
    /// If a pattern is no regular expression, or the rule has none, or no labels.
    pub fn new(settings: RuleSettings) -> Result<Self, ParseRuleError> {
        let RuleSettings {
            executable,
            cgroup,
            command_line,
            labels,
        } = settings;
        if executable.is_none() && cgroup.is_none() && command_line.is_none() {
            return Err(ParseRuleError::NoPattern);
        }
        if labels.is_empty() {
            return Err(ParseRuleError::NoLabels);
        }
        Ok(Self {
            executable: executable.map(whole).transpose()?,
            cgroup: cgroup.map(whole).transpose()?,
            command_line: command_line.map(whole).transpose()?,
            attributes: labels.into_iter().collect(),
        })
    }

    pub(super) fn fits(&self, evidence: &Evidence) -> bool {
        let fits = |pattern: &Option<Regex>, text: &str| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(text))
        };
        fits(&self.executable, &evidence.executable)
            && fits(&self.cgroup, &evidence.group.path)
            && (self.command_line.is_none()
                || fits(&self.command_line, &evidence.arguments.join(" ")))
    }
}

fn whole(pattern: String) -> Result<Regex, ParseRuleError> {
    Regex::new(&format!("^(?:{pattern})$")).map_err(|source| ParseRuleError::Pattern {
        pattern,
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::super::ControlGroup;
    use super::*;

    fn labels() -> BTreeMap<String, String> {
        BTreeMap::from([("service.name".to_owned(), "s".to_owned())])
    }

    #[test]
    fn all_patterns_of_a_rule_have_to_match_the_whole_text() {
        let evidence = Evidence {
            executable: "/usr/bin/python3".to_owned(),
            arguments: vec!["python3".to_owned(), "worker.py".to_owned()],
            group: ControlGroup {
                path: "/system.slice/x".to_owned(),
                ..ControlGroup::default()
            },
            ..Evidence::default()
        };
        let fits = |executable: &str, command_line: Option<&str>, cgroup: Option<&str>| {
            let rule = Rule::new(RuleSettings {
                executable: Some(executable.to_owned()),
                command_line: command_line.map(str::to_owned),
                cgroup: cgroup.map(str::to_owned),
                labels: labels(),
            });
            rule.unwrap().fits(&evidence)
        };
        assert!(fits("/usr/bin/python.*", None, None));
        assert!(fits(".*", Some("python3 worker.*"), Some("/system.*")));
        assert!(!fits("python3", None, None));
        assert!(!fits("/usr/bin/python3", Some("python3 server.*"), None));
        assert!(!fits("/usr/bin/python3", None, Some("/user.*")));
    }

    #[test]
    fn rules_that_mean_nothing_are_refused() {
        let error = |settings| Rule::new(settings).unwrap_err().to_string();
        let none = RuleSettings {
            labels: labels(),
            ..RuleSettings::default()
        };
        assert!(error(none).contains("without a pattern"));
        let no_labels = RuleSettings {
            executable: Some(".*".to_owned()),
            ..RuleSettings::default()
        };
        assert_eq!(error(no_labels), "a rule without labels");
        let wrong = RuleSettings {
            cgroup: Some("(".to_owned()),
            labels: labels(),
            ..RuleSettings::default()
        };
        assert_eq!(error(wrong), "\"(\" is no regular expression");
    }
}
