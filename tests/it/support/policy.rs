//! Policy files.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Returns the hash of a secret as a policy file has it.
pub(crate) fn token_hash(secret: &str) -> String {
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a policy with one token for each name, its rights and its keys. The secret is the name in lower case.
pub(crate) fn policy_of(tokens: &[(&str, &str, &str)]) -> String {
    let mut policy = "tokens:\n".to_owned();
    for (name, may, keys) in tokens {
        let secret = name.to_lowercase();
        let keys = keys.split(", ").map(|key| format!("\"{key}\"")).collect::<Vec<_>>().join(", ");
        write!(
            policy,
            "  - name: {name}\n    email: {secret}@example.org\n    hash: sha256:{}\n    may: [{may}]\n    keys: [{keys}]\n",
            token_hash(&secret)
        )
        .expect("a text takes everything");
    }
    policy
}
