// SPDX-License-Identifier: Apache-2.0
#include "ledger/database.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>

#include "common/error.h"
#include "common/file.h"
#include "ledger/index_guard.h"

namespace slip {
namespace {

// WAL readers do not wait for writers. The time-out only limits waits that cannot succeed, as in a read-only folder.
constexpr int kReaderTimeoutMs = 300;

ErrorCode code_of(int result) {
  switch (result & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // our statements are right, so the file lacks a table or a column of theirs
      return ErrorCode::kDataLoss;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kIo;
  }
}

std::string damage_hint(const std::string& file) {
  return "it is left as it is: move it away (mv " + file + " " + file + ".damaged) and start again; a new one is made";
}

// SQLite itself would create the file with the umask's mode and follow a planted link.
void create_private(const std::filesystem::path& file) {
  const FileHandle handle(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat status {};
  if (!handle && errno == ELOOP && ::lstat(file.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    throw Error(ErrorCode::kIo, file.string() + " is a symbolic link, which the ledger does not follow",
                "put the file itself there, or name another data directory");
  }
  if (!handle || ::fstat(handle.get(), &status) != 0) {
    throw Error(ErrorCode::kIo, "cannot open " + file.string() + ": " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kPermission, file.string() + " is not a regular file");
  if (status.st_uid != ::geteuid()) {
    throw Error(ErrorCode::kPermission, file.string() + " belongs to another user",
                "run it as that user: " + std::to_string(status.st_uid));
  }
  if ((status.st_mode & 077) != 0 && ::fchmod(handle.get(), 0600) != 0) {
    throw Error(ErrorCode::kPermission, "cannot make " + file.string() + " private: " + std::strerror(errno));
  }
}

std::string immutable_uri(const std::filesystem::path& file) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("/._-", c) != nullptr;
    const auto byte = static_cast<unsigned char>(c);
    uri += plain ? std::string(1, c) : std::string{'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return uri + "?immutable=1";
}

// SQLite's text of a result. The connection has a better one only of its own last failure, which a backup's need not
// be.
std::string text_of(sqlite3* handle, int result) {
  const bool knows = handle != nullptr && (sqlite3_errcode(handle) & 0xFF) == (result & 0xFF);
  return knows ? sqlite3_errmsg(handle) : sqlite3_errstr(result);
}

bool is_file_of_database(const std::filesystem::path& path, const std::filesystem::path& database) {
  std::error_code none;
  const auto file = std::filesystem::canonical(database, none);  // SQLite's extra files lie beside a link's target
  if (none) return false;
  const auto wanted = std::filesystem::weakly_canonical(path, none);
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::filesystem::path own = file.string() + suffix;
    if (wanted == own || std::filesystem::equivalent(path, own, none)) return true;
  }
  return false;
}

// SQLite opens these files as they come, and would wait for the other end of a FIFO.
void check_side_files(const std::filesystem::path& file) {
  std::error_code none;
  const auto target = std::filesystem::weakly_canonical(file, none);  // they lie beside a link's target
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    const std::string side = (none ? file : target).string() + suffix;
    const auto status = std::filesystem::symlink_status(side, none);
    if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) continue;
    throw Error(ErrorCode::kIo, side + ", which SQLite would open, is not a regular file", "remove it");
  }
}

}  // namespace

std::string full_disk_text(const std::filesystem::path& file) {
  constexpr std::uintmax_t kLeast = std::uintmax_t{64} << 10;  // the -shm file alone has 32 KiB
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::absolute(file, none).parent_path();
  const auto space = std::filesystem::space(folder, none);
  if (none || space.available >= kLeast) return {};
  return "; the disk of " + folder.string() + " is full: " + std::to_string(space.available) + " bytes are free";
}

void refuse_database_as_output(const std::filesystem::path& out, const std::filesystem::path& file,
                               const std::string& option) {
  if (!is_file_of_database(out, file)) return;
  throw Error(ErrorCode::kInvalidArgument,
              option + " " + out.string() + " is a file of the ledger " + file.string() + ", which it would destroy",
              "name another file with " + option, option);
}

Database::Database(const std::filesystem::path& file, Mode mode)
    : name_(file.string()), whose_damage_(name_), index_name_(name_ + "-shm"), index_cuts_(index_cuts()) {
  survive_cut_indexes();
  check_side_files(file);
  if (mode == Mode::kReadWrite) create_private(file);
  const int flags = mode == Mode::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const std::string name = mode == Mode::kImmutable ? immutable_uri(file) : std::filesystem::absolute(file).string();
  const int uri = mode == Mode::kImmutable ? SQLITE_OPEN_URI : 0;
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(name.c_str(), &handle, flags | uri | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(handle);
  if (result != SQLITE_OK) fail(result, "open");
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, mode == Mode::kReadWrite ? Database::kWriterTimeoutMs : kReaderTimeoutMs);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

// Reads by SQLite's own descriptor. To open and close the file here would end the locks that SQLite has on it.
bool Database::is_whole() const {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  constexpr int kHeaderBytes = 32;
  sqlite3_file* file = nullptr;
  sqlite3_file_control(handle_.get(), "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (file == nullptr || file->pMethods == nullptr) return true;
  sqlite3_int64 size = 0;
  std::array<unsigned char, kHeaderBytes> header{};
  const bool is_read = file->pMethods->xFileSize(file, &size) == SQLITE_OK && size >= kHeaderBytes &&
                       file->pMethods->xRead(file, header.data(), kHeaderBytes, 0) == SQLITE_OK;
  if (!is_read) return size == 0 && !had_header_;
  had_header_ = true;
  // sqlite.org/fileformat2.html, 1.3: big-endian; a page size of 1 stands for 65,536
  const auto number = [&](int begin, int n) {
    std::int64_t value = 0;
    for (int i = begin; i < begin + n; ++i) value = value << 8 | header[static_cast<std::size_t>(i)];
    return value;
  };
  const std::int64_t page_bytes = number(16, 2) == 1 ? 65'536 : number(16, 2);
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) return false;
  // On a full disk a checkpoint may end after the header: the file is too short then, but no shorter than it was.
  if (size < page_bytes * number(28, 4)) return size >= whole_bytes_;
  whole_bytes_ = size;
  return true;
}

// By its path, since closing a descriptor of it would end SQLite's locks on it. Empty, since SQLite would trust a part
// that is left.
void Database::keep_index_whole() const noexcept {
  struct stat status {};
  if (::lstat(index_name_.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const FileIdentity identity{status.st_dev, status.st_ino};
  if (identity != index_) index_bytes_ = 0;  // SQLite maps the file that it opened, which is another one
  index_ = identity;
  index_bytes_ = std::max<std::int64_t>(index_bytes_, status.st_size);
  const std::uint64_t cuts = index_cuts();
  const bool is_whole = status.st_size == index_bytes_ && cuts == index_cuts_;
  index_cuts_ = cuts;
  if (!is_whole && ::truncate(index_name_.c_str(), 0) == 0) {
    static_cast<void>(!::truncate(index_name_.c_str(), index_bytes_));
  }
}

void Database::check_index() const {
  if (index_cuts() == index_cuts_) return;
  throw Error(ErrorCode::kIo, index_name_ + " was cut while SQLite used it",
              "leave SQLite's files alone, and try again");
}

void Database::fail(int result, const std::string& doing) const {
  const ErrorCode code = code_of(result);
  const std::string what = text_of(handle_.get(), result);
  if (code == ErrorCode::kDataLoss) damaged(what);
  const bool locked = (result & 0xFF) == SQLITE_BUSY;
  const std::string more = locked ? ", by another process" : code == ErrorCode::kIo ? full_disk_text(name_) : "";
  throw Error(code, "cannot " + doing + " " + name_ + ": " + what + more,
              locked ? "see which one has it open: fuser " + name_ : "");
}

void Database::damaged(const std::string& how) const {
  throw Error(ErrorCode::kDataLoss, whose_damage_ + " is damaged or no SQLite database: " + how,
              damage_hint(whose_damage_));
}

void Database::run(const std::string& sql) {
  const int result = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) fail(result, "use");
}

void Database::execute(const std::string& sql) {
  run(sql);
  check_index();
}

Transaction::Transaction(Database& database) : database_(database) {
  database.run("BEGIN IMMEDIATE");  // without a check of the index, which would leave the transaction open
}

Transaction::~Transaction() {
  if (sqlite3_get_autocommit(database_.get()) != 0) return;
  sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

// A cut during COMMIT itself does no harm: its pages are made by then, and the index is not trusted afterwards.
void Transaction::commit() {
  database_.check_index();
  database_.run("COMMIT");
}

std::int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

Statement::Statement(const Database& database, const std::string& sql) : database_(&database) {
  sqlite3_stmt* handle = nullptr;
  const int size = static_cast<int>(sql.size());
  const int result = sqlite3_prepare_v3(database.get(), sql.c_str(), size, SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  handle_.reset(handle);
  if (result != SQLITE_OK) database.fail(result, "use");
}

bool Statement::step() {
  const int result = sqlite3_step(handle_.get());
  if (result == SQLITE_ROW) return true;
  reset();
  if (result != SQLITE_DONE) database_->fail(result, "use");
  database_->check_index();
  return false;
}

void Statement::reset() {
  sqlite3_reset(handle_.get());
}

std::string Statement::name(int column) const {
  return sqlite3_column_name(handle_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
  return bytes == nullptr ? std::string() : std::string(bytes, sqlite3_column_bytes(handle_.get(), column));
}

void Statement::bind(int index, std::int64_t value) {
  const int result = sqlite3_bind_int64(handle_.get(), index, value);
  if (result != SQLITE_OK) database_->fail(result, "bind a value for");
}

void Statement::bind(int index, double value) {
  const int result = sqlite3_bind_double(handle_.get(), index, std::isfinite(value) ? value : 0.0);
  if (result != SQLITE_OK) database_->fail(result, "bind a value for");
}

void Statement::bind(int index, const std::string& value) {
  const auto size = static_cast<sqlite3_uint64>(value.size());
  const int result = sqlite3_bind_text64(handle_.get(), index, value.data(), size, SQLITE_TRANSIENT, SQLITE_UTF8);
  if (result != SQLITE_OK) database_->fail(result, "bind a value for");
}

}  // namespace slip
