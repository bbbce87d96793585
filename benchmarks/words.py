"""The vocabulary of the generated memories. Made for this benchmark; nothing is taken from anywhere."""


def _words(text: str, between: str | None = None) -> list[str]:
    return [" ".join(part.split()) for part in text.split(between)]


COMPONENTS = _words("""
importer exporter scheduler gateway dashboard parser indexer replicator mailer collector renderer
resolver balancer archiver validator dispatcher planner notifier crawler optimiser compiler sampler uploader registry
tokenizer throttler forwarder aggregator inspector migrator publisher subscriber translator supervisor watcher bridge
ledger mirror sandbox pipeline warehouse console calendar queue cache proxy worker daemon agent broker vault editor
emulator simulator checker linter packager installer launcher profiler debugger tracer recorder player formatter
""")

SETTINGS: tuple[tuple[str, str], ...] = (
    ("connection pool", "pool of connections"),
    ("retry budget", "number of retries"),
    ("request timeout", "time limit for requests"),
    ("batch size", "size of a batch"),
    ("heap limit", "memory ceiling"),
    ("log retention", "days that logs are kept"),
    ("cache lifetime", "age of cached entries"),
    ("upload limit", "largest upload"),
    ("worker count", "number of workers"),
    ("polling interval", "time between polls"),
    ("circuit breaker threshold", "errors before the breaker opens"),
    ("session length", "time until users are logged out"),
    ("page size", "rows on one page"),
    ("queue depth", "jobs that may wait"),
    ("backoff ceiling", "longest pause between attempts"),
    ("sampling rate", "share of traces that are sampled"),
    ("snapshot interval", "time between snapshots"),
    ("keepalive period", "seconds until idle sockets close"),
    ("shard count", "number of shards"),
    ("replication factor", "copies of each record"),
    ("rate limit", "calls allowed per minute"),
    ("thread pool", "number of threads"),
    ("lease duration", "time that a lease holds"),
    ("file handle limit", "open files allowed"),
    ("compression level", "strength of compression"),
    ("read timeout", "time limit for reads"),
    ("token lifetime", "validity of tokens"),
    ("buffer size", "size of the buffer"),
    ("alert threshold", "level at which we are paged"),
    ("garbage collection pause", "pause of the garbage collector"),
)
"""How a memory calls it, how a question does."""

SYMPTOMS: tuple[tuple[str, str], ...] = (
    ("ran out of memory during the nightly run", "was killed for lack of memory at night"),
    ("returned stale prices to the storefront", "showed outdated prices in the shop"),
    ("dropped messages whenever the leader changed", "lost messages at leader elections"),
    ("doubled every invoice in the monthly statement", "billed customers twice"),
    ("deadlocked while two tenants were being merged", "hung when tenants were merged"),
    ("rejected valid certificates after the renewal", "refused good certificates after renewing"),
    ("filled the disk with debug output", "used up all disk space with logs"),
    ("sent the welcome letter in the wrong language", "greeted people in the wrong language"),
    ("mixed up time zones around the clock change", "got hours wrong at daylight saving"),
    ("crashed on names with an apostrophe", "failed for names containing a quote mark"),
    ("took eleven minutes to start after a restart", "was so slow to come up again"),
    ("lost the last page of long reports", "cut off the end of reports"),
    ("answered every health check although it was stuck", "looked healthy while it was hanging"),
    ("overwrote newer rows with older ones", "replaced fresh records with old ones"),
    ("leaked file handles on each failed upload", "ran out of descriptors after broken uploads"),
    ("showed orders of other customers in the search", "exposed foreign orders when searching"),
    ("skipped the first record of every file", "ignored the first line of files"),
    ("rounded small amounts down to zero", "turned little amounts into nothing"),
    ("flooded the chat channel with duplicate alerts", "paged us again and again about one thing"),
    ("blocked all deployments on Friday afternoon", "stopped releases before the weekend"),
    ("could not read archives older than two years", "was unable to open old archives"),
    ("burned half of the monthly cloud budget in a week", "became so expensive within days"),
    ("timed out on the largest accounts", "was too slow for big customers"),
    ("forgot permissions after a role was renamed", "dropped rights when a role got a new name"),
    ("corrupted its index when the power failed", "had a broken index after the outage"),
    ("kept serving traffic from the retired region", "still used the closed data centre"),
    ("ignored the maintenance window completely", "kept working during maintenance"),
    ("produced empty thumbnails for portrait photos", "made blank previews of upright pictures"),
    ("accepted expired coupons at the checkout", "let people pay with old vouchers"),
    ("broke the mobile client on older phones", "stopped working on old handsets"),
)
"""How a memory tells it, how a question does."""

NOUNS = _words("""
contract schema migration rollout deadline review baseline budget checklist runbook dependency upgrade
fallback snapshot partition constraint column cursor header payload endpoint fixture mock harness warning exception
stack trace metric histogram percentile counter gauge label annotation comment branch merge conflict commit release
candidate tag artifact container image volume mount network subnet route certificate secret password rotation audit
trail policy rule exemption customer tenant vendor partner auditor lawyer designer translator analyst intern architect
manager operator engineer reviewer owner maintainer stakeholder meeting workshop interview survey experiment prototype
pilot hypothesis finding lesson postmortem summary agenda roadmap milestone quarter sprint backlog estimate risk
mitigation assumption decision proposal objection compromise convention guideline template example tutorial glossary
diagram sketch spreadsheet notebook script macro plugin extension adapter wrapper interface protocol handshake session
socket packet stream offset checkpoint transaction rollback lock semaphore latch barrier thread coroutine callback
promise iterator generator closure decorator annotation enum struct record tuple mapping array matrix vector tensor
kernel driver firmware sensor printer scanner keyboard monitor battery cable rack cabinet generator invoice receipt
refund discount subscription voucher shipment parcel warehouse inventory supplier catalogue price margin tax currency
ledger balance statement account profile avatar preference consent notice banner newsletter campaign audience segment
region country city office desk visitor badge door elevator garden kitchen weather season winter morning evening
""")

ADJECTIVES = _words("""
quiet brittle sturdy obsolete recent modest generous narrow shallow thorough tedious clever naive
explicit implicit idle busy stubborn gentle hidden obvious subtle rare frequent seasonal nightly weekly monthly annual
temporary permanent optional mandatory internal external public private shared isolated nested flat sparse dense
compact verbose terse faulty reliable flaky stable volatile persistent transient synchronous asynchronous parallel
sequential incremental complete partial empty crowded remote local regional global foreign domestic legal technical
financial medical educational experimental provisional official informal polite urgent patient careful reckless cheap
costly slow rapid sudden gradual linear exponential random uniform skewed noisy clean dirty fresh stale warm cold
""")

VERBS = _words("""
noticed documented reverted patched renamed simplified postponed approved rejected measured profiled
reproduced isolated replaced removed extended shortened rewrote translated archived restored duplicated compared
verified signed encrypted rotated escalated delegated automated scheduled cancelled reopened reassigned estimated
forecast budgeted audited sampled filtered sorted grouped merged split inlined extracted decoupled wrapped mocked
stubbed benchmarked throttled cached invalidated preloaded streamed buffered flushed compacted indexed partitioned
replicated migrated backfilled validated sanitised escaped parsed serialised compressed unpacked mounted drained
cordoned rebooted upgraded downgraded pinned vendored forked published deprecated announced discussed sketched
""")

REASONS = _words(
    """because the vendor changed the format without notice|since two teams wrote to the same table|as the load
test had used far too few accounts|because a default was copied from the old platform|since nobody owned that part any
more|because the library swallows the first exception|as the feature flag was only set in staging|because the clock
of one host ran ahead|since the documentation described the previous version|because the backup job held a lock for
hours|as the proxy closes idle connections silently|because the index was missing on the new replica|since the mock
returned what we hoped for|because rounding happened twice|as the certificate chain was incomplete|because retries
were not idempotent|since the migration had been applied by hand|because the cache key left out the tenant|as the
queue was shared with the reporting jobs|because the parser trusted the declared length|since the limit counts bytes
and not characters|because the worker ignored the termination signal|as the lookup table was built only once|because
an environment variable was misspelt""",
    "|",
)

WHENS = _words(
    """on Monday morning|after the spring release|during the load test|in the second week of March|just before the
audit|at the end of the quarter|on the day of the launch|while the team was travelling|after the region moved|during
the night shift|in early December|before the holidays|after lunch on Thursday|within an hour of the rollout|over the
long weekend|during the migration|after the third attempt|in the middle of the demo|since the last upgrade|shortly
after midnight""",
    "|",
)

ONSETS = _words("b br c ch d dr f fl g gr h j k kl l m n p pr qu r s st t tr v w z")
NUCLEI = _words("a e i o u ai ea io ou")
CODAS = _words("l n r s t x m nd rk st")
