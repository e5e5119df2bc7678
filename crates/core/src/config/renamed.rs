//! Former names of settings, which are refused with the name that replaced each. `infra/renamed.json`
//! is a copy of the list, by which the deployment and the CDK construct refuse former names.

/// Former names and their replacements: of variables, of parameters of the SAM template (the CDK
/// construct's properties are the same with a small first letter), and of commands and options of
/// `tidegate`. A value under a former name is an error, so that no setting is ignored silently.
///
/// ```
/// use tidegate_core::config::new_name;
/// assert_eq!(new_name("TIDEGATE_GUARD"), Some("TIDEGATE_RATE_MARGIN"));
/// assert_eq!(new_name("TIDEGATE_RATE_MARGIN"), None);
/// ```
pub const RENAMED: &[(&str, &str)] = &[
    ("TIDEGATE_GUARD", "TIDEGATE_RATE_MARGIN"),
    ("TIDEGATE_DUPLICATE_GUARD", "TIDEGATE_DEDUPLICATION"),
    ("TIDEGATE_DUPLICATE_GUARD_DAYS", "TIDEGATE_DEDUPLICATION_DAYS"),
    ("TIDEGATE_SPILL", "TIDEGATE_DEFERRAL"),
    ("TIDEGATE_SPILL_REPLAY", "TIDEGATE_DEFERRAL_REPLAY"),
    ("TIDEGATE_PRESSURE_BUSY", "TIDEGATE_BACK_PRESSURE_BUSY"),
    ("TIDEGATE_PRESSURE_OVERLOADED", "TIDEGATE_BACK_PRESSURE_OVERLOADED"),
    ("Guard", "RateMargin"),
    ("DuplicateGuard", "Deduplication"),
    ("DuplicateGuardDays", "DeduplicationDays"),
    ("Shedding", "Deferral"),
    ("SpillReplay", "DeferralReplay"),
    ("PressureBusy", "BackPressureBusy"),
    ("PressureOverloaded", "BackPressureOverloaded"),
    ("spill", "deferred"),
    ("--guard", "--rate-margin"),
];

/// The name that replaced `old`; `None` if `old` is not a former name.
pub fn new_name(old: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(former, _)| *former == old).map(|(_, new)| *new)
}
