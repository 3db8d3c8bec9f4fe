"""Every limit and default of the contract, in one place. Sizes are bytes of UTF-8 unless a comment says otherwise."""

from __future__ import annotations

from typing import Final

# Texts
MAX_EMBEDDABLE_TEXT_BYTES: Final = 2_048
MAX_FACT_BYTES: Final = 1_048_576  # a passage, a stored source, a working context
MAX_METADATA_BYTES: Final = 65_536  # compact JSON
MAX_METADATA_DEPTH: Final = 64  # levels of nesting
MAX_RELATION_BYTES: Final = 512
MAX_QUERY_BYTES: Final = 65_536
MAX_FIELD_BYTES: Final = 128  # recall_where field names
MAX_IDEMPOTENCY_KEY_BYTES: Final = 256

# Numbers
MAX_ID: Final = 2**64 - 1
MIN_INTEGER: Final = -(2**63)  # metadata integers
MAX_INTEGER: Final = 2**64 - 1
MAX_EPOCH_SECONDS: Final = 2**62  # expiries saturate here

# Recall
DEFAULT_RECALL_LIMIT: Final = 10
MAX_RECALL_LIMIT: Final = 1_000  # k and pool
POOL_FACTOR: Final = 8
POOL_MIN: Final = 64
MAX_FILTERS: Final = 64  # predicates in one call

# Fused recall
DEFAULT_HOPS: Final = 2
DEFAULT_GRAPH_BOOST: Final = 0.15
# Measured for each class of embedder: docs/retrieval.md
DEFAULT_LEXICAL_BOOST: Final = 4.0
DEFAULT_LEXICAL_BOOST_SEMANTIC: Final = 1.5

# Walks
DEFAULT_WHY_HOPS: Final = 2
MAX_WHY_HOPS: Final = 10
MAX_WHY_NODE_DEGREE: Final = 64
MAX_WHY_NODES: Final = 500
MAX_WHY_EDGES: Final = 2_000

# Entities
MAX_TEACHERS: Final = 16  # facts of a passage that one of its statements is traced back to
MAX_ENTITY_RELATIONS: Final = 64
MAX_ENTITY_SCAN_EDGES: Final = 4_096

# Listing
DEFAULT_LIST_LIMIT: Final = 50
MAX_LIST_LIMIT: Final = 1_000

# Learned confidence
NEUTRAL_CONFIDENCE: Final = 0.5
CONFIDENCE_WEIGHT: Final = 0.5
CONFIDENCE_GAIN: Final = 0.1
CONFIDENCE_LOSS: Final = 0.05

# Compiling contexts
MAX_FRAGMENTS: Final = 1_024
MAX_FRAGMENT_BYTES: Final = 1_048_576
MAX_MEDIA_BYTES: Final = 4_194_304  # of base64, in one fragment
MAX_TOTAL_MEDIA_BYTES: Final = 67_108_864  # of base64, in one request
MAX_INGEST_FILE_BYTES: Final = 1_048_576
MAX_INGEST_FILES: Final = 64
MAX_TOTAL_INGEST_BYTES: Final = 67_108_864
MAX_TRANSCRIPT_BYTES: Final = 8_388_608
MAX_TOKEN_BUDGET: Final = 10_000_000  # tokens; more is cut to this
MAX_PRIORITY: Final = 255
MIN_CHUNK_BYTES: Final = 256
DEFAULT_CHUNK_BYTES: Final = 2_048
DEFAULT_SEGMENT_BYTES: Final = 256
MIN_LOG_RUN_LINES: Final = 8
WARNING_RELEVANCE: Final = 0.35
DEFAULT_MEMORY_K: Final = 5
DEFAULT_IMPORTANCE_CONFIDENCE: Final = 0.2
DEFAULT_IMPORTANCE_RECENCY: Final = 0.1
MAX_WORKING_NAME_BYTES: Final = 256  # a project or a session of a working context
DEFAULT_STDIN_BUDGET: Final = 2_000  # tokens

# Jobs
MAX_PENDING_JOBS: Final = 64
MAX_PENDING_AUTOGRAPH: Final = 10_000
JOB_LEASE_SECONDS: Final = 60
JOB_PATIENCE_SECONDS: Final = 600  # for another process to take a job that this one has no extractor for
MAX_JOB_ATTEMPTS: Final = 5
JOB_RETENTION_SECONDS: Final = 30 * 86_400
JOB_RETENTION_COUNT: Final = 10_000

# Serving over HTTP
MAX_CONNECTIONS: Final = 1_000
MAX_HEAD_SECONDS: Final = 15  # from the first byte of a request to the end of its headers
MAX_STALL_SECONDS: Final = 30  # between two pieces of a body
CONNECTION_IDLE_SECONDS: Final = 75  # between two requests of one connection
SESSION_INITIALIZE_SECONDS: Final = 60  # for a new session to say that it is initialised, before it may be evicted

# Migrations
DEFAULT_PAUSE_BUDGET_MS: Final = 500  # of the command line; the tool asks for it
MAX_PAUSE_BUDGET_MS: Final = 20_000  # writers wait 30 seconds before they give up
DEFAULT_JOURNAL_BYTES: Final = 67_108_864
MAX_JOURNAL_BYTES: Final = 2**40
DEFAULT_FACT_BATCH: Final = 256
DEFAULT_REPLAY_BATCH: Final = 256
MAX_MIGRATION_BATCH: Final = 4_096  # facts: a batch is one transaction, and writers wait for it
DEFAULT_EDGE_CAP: Final = 4_096
MAX_EDGE_CAP: Final = 65_536
DEFAULT_OBSERVATION_WINDOW: Final = 3
MAX_OBSERVATION_WINDOW: Final = 1_000
DEFAULT_VERIFICATION_RESERVE_MS: Final = 100
MIGRATION_LEASE_SECONDS: Final = 60

# Embedding
DEFAULT_DIMENSION: Final = 384  # of the embedder built in
MAX_EMBED_BATCH: Final = 32  # texts in one request to a model server; some take no more
