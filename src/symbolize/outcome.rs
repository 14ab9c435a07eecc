//! What became of each module of a request, summed up over its addresses, for those who count it.

use unhex_api::symbolize::{Module, ModuleStatus, SymbolizeRequest};
use unhex_build_id::Identity;

use super::answer::{Answer, AnsweredModule};
use super::binaries::Named;

/// What became of one module.
#[derive(Clone, Debug)]
pub struct ModuleOutcome {
    /// What it is; `None` when what was sent is no identity.
    pub identity: Option<Identity>,
    /// The file name that was sent.
    pub name: Option<String>,
    /// Whether there are symbols.
    pub status: ModuleStatus,
    /// Its addresses.
    pub addresses: u64,
    /// How often they were seen, by the request's weights, 1 each without them.
    pub weight: u64,
    /// The part of `weight` whose addresses no function covers, although there are symbols.
    pub weight_without_function: u64,
}

/// What became of each module of `request`, in order.
pub(super) fn outcomes(
    request: &SymbolizeRequest,
    named: &Named,
    answer: &Answer,
) -> Vec<ModuleOutcome> {
    let modules = request.modules.iter().zip(&named.of_module);
    modules
        .zip(answer.modules())
        .map(|((module, number), answered)| ModuleOutcome {
            identity: match named.identities.get(*number) {
                Some(Ok(identity)) => Some(identity.clone()),
                _ => None,
            },
            name: module.name.clone(),
            status: answered.status,
            addresses: whole(module.addresses.len()),
            weight: total(weights(module)),
            weight_without_function: without_function(module, answered, answer),
        })
        .collect()
}

fn without_function(module: &Module, answered: &AnsweredModule, answer: &Answer) -> u64 {
    let Some((stacks, binary)) = answer.stacks_of(answered) else {
        return 0;
    };
    let nameless = weights(module)
        .zip(&stacks.places)
        .filter(|(_, place)| binary.frames_of(**place).is_empty());
    total(nameless.map(|(weight, _)| weight))
}

/// The weight of each address; those of another number than addresses are ignored.
fn weights(module: &Module) -> impl Iterator<Item = u64> {
    let addresses = module.addresses.len();
    let given = module.weights.as_deref();
    let given = given.filter(|weights| weights.len() == addresses);
    (0..addresses).map(move |number| {
        let weight = given.and_then(|weights| weights.get(number));
        weight.copied().unwrap_or(1)
    })
}

fn total(weights: impl Iterator<Item = u64>) -> u64 {
    weights.fold(0, u64::saturating_add)
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
