//! Why no types can be generated.

/// Why a definition cannot be turned into types.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The input has no CustomResourceDefinition.
    #[error("found no CustomResourceDefinition")]
    NoDefinition,
    /// The definition is written in a version of the API that has other fields.
    #[error("{name} is a definition of {api_version}: only apiextensions.k8s.io/v1 can be read")]
    ApiVersion {
        /// The name of the definition.
        name: String,
        /// The version of the API that it names.
        api_version: String,
    },
    /// A field that every definition has is missing.
    #[error("{name} has no {field}")]
    Missing {
        /// The name of the definition.
        name: String,
        /// The path of the field.
        field: &'static str,
    },
    /// The input is nested deeper than the API server accepts.
    #[error(transparent)]
    TooDeep(#[from] evenkeel_schema::depth::TooDeep),
    /// A name in the definition is not one that an API server accepts. It could end a comment or an item of the generated
    /// code, which a compiler would then read as code.
    #[error("a name in the definition {name:?} is not valid: {problem}")]
    Name {
        /// The name of the definition.
        name: String,
        /// The first problem, in Kubernetes' words.
        problem: String,
    },
    /// The schema of a version is not structural, so that no API server accepts it.
    #[error("the schema of {name} {version} is not structural: {problem}")]
    NotStructural {
        /// The name of the definition.
        name: String,
        /// The version.
        version: String,
        /// The first problem, in Kubernetes' words.
        problem: String,
    },
}
