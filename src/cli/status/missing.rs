//! The missing part of `unhex status`: which build IDs have no symbols, whose they are, what would mend it.

use std::io::{self, Write};

use unhex_api::client::{Client, UnknownFilter};
use unhex_api::observe::{UnknownBuildId, UnknownSeenBy};
use unhex_build_id::BuildId;

use super::Form;
use crate::cli::table::Table;

/// Lists build IDs without symbols, those first of which their service has most; good when there are
/// none.
pub(super) async fn list(
    client: &Client,
    filter: &UnknownFilter,
    form: Form,
) -> anyhow::Result<bool> {
    let mut unknown = client.unknown_build_ids(filter).await?;
    unknown.sort_by(|one, two| share(two, filter).total_cmp(&share(one, filter)));
    let mut out = io::stdout().lock();
    match form {
        Form::Json => {
            let document = serde_json::json!({ "build_ids": unknown });
            writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
        }
        Form::Text if unknown.is_empty() => {
            writeln!(out, "every build ID that arrived lately has symbols")?;
        }
        Form::Text => write_list(&mut out, &unknown, filter)?,
    }
    Ok(unknown.is_empty())
}

/// Lists build IDs that are ignored by a decision; good whether there are any or not.
pub(super) async fn list_ignored(client: &Client, form: Form) -> anyhow::Result<bool> {
    let ignored = client.ignored_build_ids().await?;
    let mut out = io::stdout().lock();
    if form == Form::Json {
        let document = serde_json::json!({ "build_ids": ignored });
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
        return Ok(true);
    }
    if ignored.is_empty() {
        writeln!(out, "no build ID is ignored by a decision")?;
        return Ok(true);
    }
    let mut table = Table::new(&["BUILD ID", "FILE", "LAST SEEN", "BY", "AT", "REASON"]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for one in ignored {
        table.row(vec![
            one.build_id,
            or_dash(one.name),
            or_dash(one.last_seen),
            or_dash(one.ignored.who),
            or_dash(one.ignored.at),
            one.ignored.reason,
        ]);
    }
    write!(out, "{table}")?;
    writeln!(
        out,
        "\nTo ignore one no longer: unhex status BUILD_ID --stop-ignoring"
    )?;
    Ok(true)
}

/// Ignores a build ID from now on.
pub(super) async fn ignore(
    client: &Client,
    build_id: &BuildId,
    reason: &str,
) -> anyhow::Result<bool> {
    let ignored = client.ignore(&build_id.to_string(), reason).await?;
    let mut out = io::stdout().lock();
    writeln!(out, "{build_id} is ignored: {}", ignored.reason)?;
    Ok(true)
}

/// Ignores a build ID no longer; good when it was ignored.
pub(super) async fn stop_ignoring(client: &Client, build_id: &BuildId) -> anyhow::Result<bool> {
    let was_ignored = client.stop_ignoring(&build_id.to_string()).await?;
    let words = if was_ignored {
        "counts again"
    } else {
        "was not ignored"
    };
    writeln!(io::stdout().lock(), "{build_id} {words}")?;
    Ok(was_ignored)
}

/// What profiles said of one build ID that has no symbols.
pub(super) fn write_one(out: &mut impl Write, unknown: &UnknownBuildId) -> io::Result<()> {
    writeln!(out, "build ID   {}", unknown.build_id)?;
    if let Some(name) = &unknown.name {
        writeln!(out, "file       {name}")?;
    }
    writeln!(out, "status     {}", unknown.status.as_str())?;
    writeln!(out, "mend it    {}", unknown.detail)?;
    writeln!(
        out,
        "since      {}, last seen {}, in {} profiles",
        unknown.first_seen, unknown.last_seen, unknown.profiles
    )?;
    match &unknown.ignored {
        Some(ignored) => {
            let who = ignored.who.as_deref().unwrap_or("somebody");
            match &ignored.at {
                Some(at) => writeln!(out, "ignored    {}, by {who} at {at}", ignored.reason)?,
                None => writeln!(out, "ignored    {}", ignored.reason)?,
            }
        }
        None if unknown.alerting => writeln!(out, "alert      yes")?,
        None => writeln!(out, "alert      no: within the grace, or too small a share")?,
    }
    let mut table = Table::new(&[
        "SERVICE",
        "VERSION",
        "DEPLOYMENT",
        "SHARE",
        "ALERT",
        "LAST SEEN",
    ]);
    for by in &unknown.seen_by {
        table.row(vec![
            by.service.clone(),
            by.version.clone(),
            by.deployment.clone(),
            percent(by.share),
            alert_word(by.alerting).to_owned(),
            by.last_seen.clone(),
        ]);
    }
    write!(out, "\n{table}")
}

fn write_list(
    out: &mut impl Write,
    unknown: &[UnknownBuildId],
    filter: &UnknownFilter,
) -> io::Result<()> {
    let mut table = Table::new(&[
        "BUILD ID", "FILE", "STATUS", "SERVICE", "VERSION", "SHARE", "ALERT", "SINCE",
    ]);
    for one in unknown {
        for by in wanted(one, filter) {
            table.row(vec![
                one.build_id.clone(),
                one.name.clone().unwrap_or_else(|| "-".to_owned()),
                one.status.as_str().to_owned(),
                by.service.clone(),
                by.version.clone(),
                percent(by.share),
                alert_word(by.alerting).to_owned(),
                by.first_seen.clone(),
            ]);
        }
    }
    write!(out, "{table}")?;
    writeln!(
        out,
        "\nUpload their debug files, or the files unstripped: unhex upload PATH\n\
         More of one: unhex status BUILD_ID; to ignore it: unhex status BUILD_ID --ignore REASON"
    )
}

/// Those of a build ID's services that were asked for, the most recent first.
fn wanted<'a>(
    unknown: &'a UnknownBuildId,
    filter: &'a UnknownFilter,
) -> impl Iterator<Item = &'a UnknownSeenBy> {
    let is_wanted =
        |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|one| one == found);
    unknown.seen_by.iter().filter(move |by| {
        is_wanted(&filter.service, &by.service)
            && is_wanted(&filter.version, &by.version)
            && is_wanted(&filter.deployment, &by.deployment)
    })
}

fn share(unknown: &UnknownBuildId, filter: &UnknownFilter) -> f64 {
    let shares = wanted(unknown, filter).map(|by| by.share);
    shares.fold(0.0, f64::max)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn alert_word(alerting: bool) -> &'static str {
    if alerting { "yes" } else { "no" }
}
