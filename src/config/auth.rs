//! Who may do what, as the command line says it.

use std::path::PathBuf;
use std::str::FromStr;

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// No authentication and no OpenAPI routes.
    None,
    /// The variant with authorization, opened on purpose.
    AllowAll,
    /// The bearer tokens of a policy file.
    Policy(PathBuf),
}

impl FromStr for Auth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("name none, allow-all or a policy file".into()),
            "none" => Ok(Self::None),
            "allow-all" => Ok(Self::AllowAll),
            file => Ok(Self::Policy(file.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_file_with_the_name_of_a_choice_is_reached_by_its_path() {
        assert_eq!("none".parse(), Ok(Auth::None));
        assert_eq!("allow-all".parse(), Ok(Auth::AllowAll));
        assert_eq!("./none".parse(), Ok(Auth::Policy("./none".into())));
    }
}
