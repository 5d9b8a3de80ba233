//! The names behind the built-in rules: classes and codes of Java, Python, .NET, Node, Go, Rust and their libraries.
//!
//! Words separated by blanks, one constant per row of the table in `builtin.rs`. A class stands here by its last
//! segment: `psycopg.errors.DeadlockDetected` as `DeadlockDetected`. A name stands in one place only; a test says so.

pub(super) const TIMEOUT: &str = "\
    TimeoutError Timeout ReadTimeout ConnectTimeout ConnectionTimeout ReadTimeoutError ConnectTimeoutError \
    ServerTimeoutError SocketTimeoutError PoolTimeout WriteTimeout TimeoutException SocketTimeoutException \
    ConnectTimeoutException HttpTimeoutException HttpConnectTimeoutException ReadTimeoutException \
    WriteTimeoutException RequestTimeoutException QueryTimeoutException SQLTimeoutException \
    CallTimeoutException OperationTimedOutException TimeoutRejectedException MongoExecutionTimeoutException \
    ResourceAccessException AsyncRequestTimeoutException DeadlineExceeded DeadlineExceededError \
    deadlineExceededError HandlerTimeoutError HeadersTimeoutError BodyTimeoutError TimedOut Elapsed \
    timeoutError SoftTimeLimitExceeded StatementTimeout QueryCanceled";

pub(super) const CONNECTION: &str = "\
    ConnectionError ConnectionRefusedError ConnectionResetError ConnectionAbortedError BrokenPipeError \
    NewConnectionError ConnectError RemoteDisconnected ProtocolError ServerDisconnectedError \
    ClientConnectorError ClientOSError InterfaceError OperationalError AutoReconnect \
    ServerSelectionTimeoutError NetworkTimeout MaxRetryError gaierror ConnectException ConnectionException \
    NoRouteToHostException PortUnreachableException UnknownHostException SocketException \
    NoHttpResponseException HttpHostConnectException ConnectionClosedException CommunicationsException \
    CommunicationException SQLTransientConnectionException SQLNonTransientConnectionException \
    SQLRecoverableException DataAccessResourceFailureException JDBCConnectionException \
    RedisConnectionException JedisConnectionException MongoSocketException MongoSocketOpenException \
    MongoSocketReadException NoNodeAvailableException AllNodesFailedException LeaderNotAvailableException \
    NotLeaderOrFollowerException DisconnectException NetworkException BrokerNotAvailableException \
    EndpointNotFoundException ServiceUnavailableException ServiceUnavailable ServiceUnavailableError \
    Unavailable UnavailableError OpError ConnectionRefused ConnectionReset ConnectionAborted BrokenPipe \
    NotConnected HostUnreachable NetworkUnreachable EndpointConnectionError ConnectionLost \
    ConnectionDoesNotExistError MongoNetworkError SequelizeConnectionError SequelizeConnectionRefusedError \
    SocketError TransientError TransientException TransientDataAccessException \
    RecoverableDataAccessException SQLTransientException RetryableException RetriableException BadGateway \
    GatewayTimeout";

pub(super) const RATE_LIMIT: &str = "\
    RateLimitError RateLimitException RateLimitExceeded RateLimitExceededException RateLimited \
    TooManyRequests TooManyRequestsException TooManyRequestsError TooManyRequestsHttpException \
    ThrottlingException ThrottledException Throttled ThrottlingError RequestThrottledException \
    ProvisionedThroughputExceededException RequestLimitExceeded SlowDown RequestNotPermitted \
    LimitExceededException ResourceExhausted BulkheadFullException BulkheadRejectedException \
    RateLimiterRejectedException QuotaExceededException CircuitBreakerOpenException \
    CallNotPermittedException BrokenCircuitException CircuitBreakerError OpenCircuitError";

pub(super) const DEADLOCK: &str = "\
    DeadlockDetected DeadlockDetectedError DeadlockLoserDataAccessException DeadlockException Deadlocked \
    SerializationFailure SerializationFailureException TransactionRollbackError \
    CannotSerializeTransactionException CannotAcquireLockException LockAcquisitionException \
    LockTimeoutException PessimisticLockException PessimisticLockingFailureException \
    PessimisticEntityLockException OptimisticLockException OptimisticLockingFailureException \
    ObjectOptimisticLockingFailureException StaleObjectStateException StaleDataError \
    DbUpdateConcurrencyException ConcurrencyFailureException ConcurrentModificationError LockNotAvailable \
    LockNotAvailableError LockError LockTimeout SQLTransactionRollbackException WriteConflict \
    ConcurrencyException DatabaseIsLocked SQLiteBusyException BusyException";

pub(super) const POOL: &str = "\
    PoolExhaustedException PoolExhausted PoolError PoolTimedOut TooManyConnections TooManyConnectionsError \
    CannotGetJdbcConnectionException ConnectionPoolTimeoutException PoolInitializationException \
    RejectedExecutionException TaskRejectedException QueueFull NoConnectionAvailable ConnectionPoolTimeout \
    SequelizeConnectionAcquireTimeoutError MongoWaitQueueFullException TaskQueueFull";

pub(super) const DESERIALIZATION: &str = "\
    JSONDecodeError JsonDecodeError UnicodeDecodeError UnpicklingError DecodeError ParseError ParserError \
    ParseException JsonParseException JsonSyntaxException JsonProcessingException JsonMappingException \
    JsonEOFException MismatchedInputException InvalidFormatException UnrecognizedPropertyException \
    InvalidDefinitionException ValueInstantiationException HttpMessageNotReadableException \
    MessageConversionException SerializationException DeserializationException DeserializationError \
    RecordDeserializationException MalformedInputException CharacterCodingException AvroTypeException \
    AvroRuntimeException AvroMissingFieldException SchemaParseException InvalidProtocolBufferException \
    InvalidProtocolBufferError SAXParseException XMLStreamException UnmarshalException XmlException \
    JsonException JsonReaderException JsonSerializationException SyntaxError UnmarshalTypeError \
    InvalidUnmarshalError UnmarshalFieldError FromUtf8Error Utf8Error XMLSyntaxError ExpatError YAMLError \
    BadZipFile MessagePackSerializationException InvalidDataException StreamCorruptedException \
    InvalidClassException SchemaError SchemaException SchemaValidationException AvroException";

pub(super) const VALIDATION: &str = "\
    ValidationError ValidationException ConstraintViolationException MethodArgumentNotValidException \
    BindException InvalidArgument InvalidArgumentError InvalidArgumentException ArgumentException \
    ArgumentNullException ArgumentOutOfRangeException IllegalArgumentException ValidationErrors ValueError \
    RangeError BadRequest BadRequestException BadRequestError UnprocessableEntity \
    UnprocessableEntityException InvalidInputException InvalidRequestException ZodError JoiValidationError \
    AjvValidationError SequelizeValidationError NumberFormatException FormatException DateTimeParseException \
    DateTimeException InvalidOperation DecimalException ParseIntError ParseFloatError NumError DataError \
    StringDataRightTruncation DataTruncation CheckViolation NotNullViolation NotNullViolationError \
    CheckViolationError DataException OutOfRange FailedPrecondition";

pub(super) const UNKNOWN_VERSION: &str = "\
    UnknownVersion UnknownVersionError UnknownVersionException UnsupportedVersion UnsupportedVersionError \
    UnsupportedVersionException UnknownEventVersion UnknownEventVersionException UnsupportedEventVersion \
    UnknownSchemaVersion UnsupportedSchemaVersion SchemaVersionNotFound VersionMismatchException \
    VersionMismatchError";

pub(super) const MISSING_REFERENCE: &str = "\
    ForeignKeyViolation ForeignKeyViolationError ForeignKeyConstraintError \
    SequelizeForeignKeyConstraintError IntegrityError DataIntegrityViolationException \
    SQLIntegrityConstraintViolationException EntityNotFoundException ObjectNotFoundException \
    EmptyResultDataAccessException JpaObjectRetrievalFailureException NoResultException \
    ResourceNotFoundException NotFoundException NotFoundError NotFound NoSuchElementException \
    KeyNotFoundException ObjectDoesNotExist DoesNotExist NoResultFound RecordNotFound RecordNotFoundError \
    DocumentNotFoundError RowNotFound NoSuchKey ErrNoRows FileNotFoundError FileNotFoundException \
    NoSuchFileException EntityNotFoundError";

pub(super) const DUPLICATE: &str = "\
    UniqueViolation DuplicateKeyException UniqueViolationError UniqueConstraintError DuplicateKeyError \
    AlreadyExists";

pub(super) const PERMISSION: &str = "\
    PermissionError PermissionDenied PermissionDeniedError PermissionDeniedException AccessDenied \
    AccessDeniedException AccessControlException AuthorizationException AuthorizationError \
    AuthenticationException AuthenticationError AuthenticationFailed AuthenticationFailedException \
    BadCredentialsException InsufficientAuthenticationException UnauthorizedException UnauthorizedError \
    UnauthorizedAccessException Unauthorized Unauthenticated Forbidden ForbiddenException ForbiddenError \
    SecurityException InsufficientPrivilege ExpiredTokenException InvalidTokenError \
    TopicAuthorizationException GroupAuthorizationException JsonWebTokenError TokenExpiredError";

pub(super) const TYPE_ERROR: &str = "\
    TypeError AttributeError KeyError IndexError NameError UnboundLocalError AssertionError \
    ZeroDivisionError OverflowError NotImplementedError RecursionError ImportError ModuleNotFoundError \
    UnboundLocalException ArithmeticException ArithmeticError ClassCastException NullPointerException \
    ArrayIndexOutOfBoundsException IndexOutOfBoundsException StringIndexOutOfBoundsException \
    NegativeArraySizeException ArrayStoreException NoSuchFieldError NoSuchMethodError NoSuchFieldException \
    NoSuchMethodException NoClassDefFoundError ClassNotFoundException UnsupportedOperationException \
    IllegalStateException NullReferenceException InvalidCastException IndexOutOfRangeException \
    DivideByZeroException NotImplementedException NotSupportedException InvalidOperationException \
    MissingMethodException ReferenceError AssertError ERR_INVALID_ARG_TYPE TypeAssertionError \
    TryFromIntError NoMethodError StackOverflowError Unimplemented BoundsError";

pub(super) const CONNECTION_CODES: &str = "\
    ECONNREFUSED ECONNRESET ECONNABORTED EPIPE EHOSTUNREACH ENETUNREACH ENETDOWN EAI_AGAIN ENOTFOUND \
    UND_ERR_SOCKET UNAVAILABLE 08000 08001 08003 08004 08006 57P01 57P02 57P03 ServiceUnavailable \
    PROTOCOL_CONNECTION_LOST";

/// Codes of Node, gRPC, SQL states, MySQL and AWS, where a handler passes them on.
pub(super) const TIMEOUT_CODES: &str = "\
    ETIMEDOUT ESOCKETTIMEDOUT ETIME UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT \
    DEADLINE_EXCEEDED 57014 RequestTimeout RequestTimeoutException";

pub(super) const RATE_LIMIT_CODES: &str = "\
    RESOURCE_EXHAUSTED Throttling ThrottlingException TooManyRequestsException SlowDown RequestLimitExceeded \
    ProvisionedThroughputExceededException rate_limit_exceeded EBUSY";

pub(super) const DEADLOCK_CODES: &str = "\
    40001 40P01 55P03 ER_LOCK_DEADLOCK ER_LOCK_WAIT_TIMEOUT 1205 1213 SQLITE_BUSY ABORTED";

pub(super) const POOL_CODES: &str = "53300 ER_CON_COUNT_ERROR 1040 EMFILE ENFILE";

pub(super) const MISSING_CODES: &str = "23503 ER_NO_REFERENCED_ROW_2 1452 NOT_FOUND P2003 P2025 ENOENT";

pub(super) const VALIDATION_CODES: &str = "23502 23514 22001 22003 INVALID_ARGUMENT ERR_INVALID_ARG_VALUE";

pub(super) const PERMISSION_CODES: &str = "\
    PERMISSION_DENIED UNAUTHENTICATED 42501 EACCES EPERM AccessDenied";
