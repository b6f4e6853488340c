//! The choice of authorization, as given on the command line.

use std::path::PathBuf;
use std::str::FromStr;

/// The choice of authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// No authentication and no OpenAPI routes.
    None,
    /// Authorization that allows everything, chosen explicitly.
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
