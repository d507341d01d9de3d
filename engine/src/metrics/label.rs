//! The labels that numbers are told by: small closed sets, so that a table of cells is an array
//! and no client can make the metrics grow.

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $label:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every variant, in the order of its index.
            pub const ALL: &[$name] = &[$($name::$variant,)+];
            /// How many variants there are.
            pub const COUNT: usize = $name::ALL.len();

            /// The label's value in Prometheus text and JSON.
            pub fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)+ }
            }

            /// Its place in a table with one cell a variant.
            #[inline]
            pub fn index(self) -> usize {
                self as usize
            }
        }
    };
}

labels! {
    /// Where an answer's bytes, or the answer itself, came from.
    Tier {
        /// The data store.
        Data = "data",
        /// The metadata store.
        Metadata = "metadata",
        /// The mapping alone: HEAD, 304, 412 and 416 answered without a body.
        Mapping = "mapping",
        /// The origin: a fill's bytes as they arrive, and everything relayed.
        Origin = "origin",
        /// The node itself: refusals and errors.
        Node = "node",
    }
}

labels! {
    /// What the client asked for, coarse enough for a histogram each.
    Operation {
        /// GetObject.
        GetObject = "get_object",
        /// HeadObject.
        HeadObject = "head_object",
        /// PutObject and CopyObject.
        PutObject = "put_object",
        /// DeleteObject and DeleteObjects.
        DeleteObject = "delete_object",
        /// ListObjects, ListObjectsV2, ListObjectVersions.
        ListObjects = "list_objects",
        /// Every request of a multipart upload.
        MultipartUpload = "multipart_upload",
        /// Buckets: list, create, head, delete, sub-resources.
        Bucket = "bucket",
        /// Everything else, malformed requests among it.
        Other = "other",
    }
}

labels! {
    /// The class of a status code.
    StatusClass {
        /// 1xx and numbers outside 200–599.
        Informational = "1xx",
        /// 2xx.
        Success = "2xx",
        /// 3xx.
        Redirection = "3xx",
        /// 4xx.
        ClientError = "4xx",
        /// 5xx.
        ServerError = "5xx",
    }
}

impl StatusClass {
    /// The class of `status`.
    #[inline]
    pub fn of(status: u16) -> StatusClass {
        match status / 100 {
            2 => StatusClass::Success,
            3 => StatusClass::Redirection,
            4 => StatusClass::ClientError,
            5 => StatusClass::ServerError,
            _ => StatusClass::Informational,
        }
    }
}

labels! {
    /// Why something failed. Counted where the failure is dealt with, once.
    Failure {
        /// A request that is not HTTP or not S3, or over a limit.
        Malformed = "malformed",
        /// A signature, key or clock that was refused.
        Refused = "refused",
        /// A connection that did not begin with the PROXY header that was asked of it, or came from where none
        /// is taken from.
        ProxyHeader = "proxy_header",
        /// A body whose digest, checksum or chunk signature did not hold.
        BodyCheck = "body_check",
        /// The client was too slow: PROXY header, head, body or keep-alive time-out.
        ClientTimeout = "client_timeout",
        /// A client that took nothing of an answer was cut, since others waited for its memory.
        ClientStalled = "client_stalled",
        /// The client went away before its answer was complete.
        ClientGone = "client_gone",
        /// A relayed write whose outcome is unknown.
        WriteUnknown = "write_unknown",
        /// The origin could not be reached.
        OriginUnreachable = "origin_unreachable",
        /// The origin took too long.
        OriginTimeout = "origin_timeout",
        /// The origin broke off, or sent something other than it announced.
        OriginBroken = "origin_broken",
        /// Turned away because a ceiling was reached.
        Overloaded = "overloaded",
        /// A fault of the node's own.
        Internal = "internal",
    }
}

labels! {
    /// How much a purge named.
    PurgeKind {
        /// One object.
        Key = "key",
        /// The objects whose keys begin alike.
        Prefix = "prefix",
        /// A bucket.
        Bucket = "bucket",
    }
}

labels! {
    /// How a fill ended.
    FillEnd {
        /// Everything asked for is cached.
        Complete = "complete",
        /// The origin failed, or the version was not proven.
        Failed = "failed",
        /// Nobody waited for it any more, or a write overtook it.
        Abandoned = "abandoned",
    }
}

labels! {
    /// What became of an upload that was to populate the cache.
    WriteAllocation {
        /// It is in the cache, as far as there was memory for it.
        Kept = "kept",
        /// It was too long, or there was no room for it or for the question that it costs.
        NoRoom = "no_room",
        /// The origin refused it, or did not name the version that it made of it.
        Refused = "refused",
        /// Another write to the key, or a purge, came between.
        Overtaken = "overtaken",
        /// The origin did not tell of it afterwards, or told of another version.
        Unproven = "unproven",
    }
}

labels! {
    /// What is counted of the cache device.
    DiskCount {
        /// Reads that it answered.
        Hits = "hits",
        /// Bytes read.
        ReadBytes = "read_bytes",
        /// Bytes written.
        WrittenBytes = "written_bytes",
        /// Runs of bytes that were not kept, for want of a buffer, a segment or memory.
        Refused = "refused",
        /// Runs of bytes that were not worth being written.
        Unadmitted = "unadmitted",
        /// Bytes that were.
        AdmittedBytes = "admitted_bytes",
        /// Records that left to make room.
        Evictions = "evictions",
        /// Segments that were emptied.
        Reclaimed = "reclaimed",
        /// Bytes that were carried over from them.
        CarriedBytes = "carried_bytes",
        /// Records that were damaged, and were dropped.
        Damaged = "damaged",
        /// Segments whose head or summary was damaged, or could not be read at the start.
        DamagedSegments = "damaged_segments",
        /// Reads that the device refused.
        ReadFailures = "read_failures",
        /// Reads that it did not answer in time.
        ReadTimeouts = "read_timeouts",
        /// Writes that it refused.
        WriteFailures = "write_failures",
        /// What the journal of mappings did not take in time.
        JournalTimeouts = "journal_timeouts",
        /// Shards whose journal of mappings could not be written any more.
        JournalFailures = "journal_failures",
        /// Shards whose journal of mappings was full.
        JournalsFull = "journals_full",
        /// Segments that the start has looked at.
        RecoverySegments = "recovery_segments",
        /// Of those, such as were not sealed, and were read through.
        RecoveryUnsealed = "recovery_unsealed",
        /// Such as were damaged.
        RecoveryDamaged = "recovery_damaged",
        /// Records that the start has found.
        RecoveryRecords = "recovery_records",
        /// How long the start has looked through it, microseconds; zero until it has ended.
        RecoveryMicros = "recovery_micros",
    }
}

labels! {
    /// What is counted of the journal of mappings.
    JournalCount {
        /// Entries that were found at the start.
        Replayed = "replayed",
        /// Entries appended.
        Entries = "entries",
        /// Entries that found no room in its queue.
        Dropped = "dropped",
        /// Batches written.
        Batches = "batches",
        /// Syncs of the device.
        Syncs = "syncs",
        /// Checkpoints that have ended.
        Checkpoints = "checkpoints",
        /// Journals that have failed: one of a shard at most.
        Failed = "failed",
        /// Journals of which nothing was believed at the start.
        Damaged = "damaged",
    }
}

labels! {
    /// What happened between the node and its origin beside the usual.
    OriginEvent {
        /// A read was asked again after a failure.
        Retry = "retry",
        /// A read was not asked again, because too many were.
        RetryRefused = "retry_refused",
        /// A read was asked a second time because its first byte was slow.
        Hedge = "hedge",
        /// The second question was answered first.
        HedgeWon = "hedge_won",
        /// A body broke off, and its rest was asked for.
        Resume = "resume",
        /// The origin failed for a while and is left alone.
        BreakerOpened = "breaker_opened",
        /// It answers again.
        BreakerClosed = "breaker_closed",
    }
}

labels! {
    /// A thing with a ceiling. Those named `*_bytes` are told in bytes, the others are counts.
    Resource {
        /// The data store's arena.
        DataBytes = "data_bytes",
        /// The metadata store's arena.
        MetadataBytes = "metadata_bytes",
        /// The stores' tables: part of the two budgets above.
        IndexBytes = "index_bytes",
        /// The mappings' table.
        MappingBytes = "mapping_bytes",
        /// Areas of the cache device for data.
        DiskDataBytes = "disk_data_bytes",
        /// Areas of the cache device for metadata.
        DiskMetadataBytes = "disk_metadata_bytes",
        /// Areas of the cache device for mappings.
        DiskMappingBytes = "disk_mapping_bytes",
        /// Arena memory that is leased to sends.
        LeasedBytes = "leased_bytes",
        /// Arena memory that is reserved for fills in flight.
        FillBytes = "fill_bytes",
        /// Memory reserved for bodies on their way that are in no store.
        BufferBytes = "buffer_bytes",
        /// Reserved for answers of the origin on their way to the stores; told by shard 0.
        OriginBytes = "origin_bytes",
        /// The device's tables and buffers in memory: part of the budgets of data and metadata.
        DiskTableBytes = "disk_table_bytes",
        /// Mappings held.
        Mappings = "mappings",
        /// Blocks that the cache device holds some of.
        DiskBlocks = "disk_blocks",
        /// Client connections.
        Connections = "connections",
        /// Calls between shards that await their reply.
        ExchangeCalls = "exchange_calls",
        /// Reads that wait for bytes in flight or for memory.
        WaitingReads = "waiting_reads",
        /// Questions to the origin about versions.
        Flights = "flights",
    }
}

impl Resource {
    /// Whether its numbers are bytes.
    pub fn is_bytes(self) -> bool {
        self.label().ends_with("_bytes")
    }
}
