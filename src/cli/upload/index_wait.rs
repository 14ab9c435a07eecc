//! Waits, within bounds, until the server has converted what was uploaded.

use std::time::Duration;

use tokio::time::Instant;
use unhex_api::artifacts::IndexState;
use unhex_api::client::Client;

use super::outcome::{Item, index_warning};

/// The first wait between two questions; it doubles up to the last.
const POLL_FIRST: Duration = Duration::from_millis(200);
const POLL_LAST: Duration = Duration::from_secs(3);

/// Asks for each item whose index is being converted, until all are done or `patience` ends.
/// What is learnt stands in the items; a server that does not answer is a warning too.
pub(super) async fn wait(client: &Client, items: &mut [Item], patience: Duration) {
    let deadline = Instant::now() + patience;
    let mut pause = POLL_FIRST;
    loop {
        let mut is_waiting = false;
        for item in items
            .iter_mut()
            .filter(|item| item.index == Some(IndexState::Converting))
        {
            ask(client, item).await;
            is_waiting |= item.index == Some(IndexState::Converting);
        }
        if !is_waiting {
            return;
        }
        if Instant::now() + pause > deadline {
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL_LAST);
    }
    for item in items
        .iter_mut()
        .filter(|item| item.index == Some(IndexState::Converting))
    {
        let build_id = item.build_id.clone().unwrap_or_default();
        item.warning = Some(format!(
            "stored, and still being converted after {} s; look later: unhex status {build_id}",
            patience.as_secs()
        ));
    }
}

async fn ask(client: &Client, item: &mut Item) {
    let Some(build_id) = item.build_id.clone() else {
        return;
    };
    match client.build_id_state(&build_id).await {
        Ok(Some(state)) => {
            item.index = state.index;
            item.quality = Some(state.quality);
            if state.index == Some(IndexState::Failed) {
                item.warning = Some(index_warning(state.detail.as_deref()));
            }
        }
        Ok(None) => {
            item.index = None;
            item.warning = Some("stored, and gone again: somebody deleted it".to_owned());
        }
        Err(error) => {
            item.index = None;
            item.warning = Some(format!(
                "stored, but the server was then not to be asked: {error}"
            ));
        }
    }
}
