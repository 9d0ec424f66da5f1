//! The attribute must see the derives.
//~ put `#[evenkeel::api]` above the `#[derive(…)]`

use evenkeel::prelude::*;

#[derive(Serialize, Clone, Debug)]
#[evenkeel::api]
pub struct SiteStatus {
    pub ready: bool,
}
