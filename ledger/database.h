// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/file.h"

namespace slip {

// One SQLite connection. SQLite's result codes become Error: kDataLoss for a damaged file, kInvalidArgument for a
// refused value, kIo for all else. The message names the file. Threads: one at a time.
class Database {
 public:
  enum class Mode : std::uint8_t {
    kReadWrite,  // creates the file (0600)
    kReadOnly,   // sees the commits of a running writer
    kImmutable,  // no lock, no WAL: for a copy in a read-only folder
  };
  static constexpr int kWriterTimeoutMs = 5000;  // time that opening waits for another writer
  Database(const std::filesystem::path& file, Mode mode);

  void execute(const std::string& sql);  // one or several statements without parameters
  std::int64_t integer(const std::string& sql);
  sqlite3* get() const { return handle_.get(); }
  const std::string& name() const { return name_; }  // the file's
  [[noreturn]] void fail(int result, const std::string& doing) const;
  [[noreturn]] void damaged(const std::string& how) const;  // Error{kDataLoss}
  // False if the file no longer begins as a database, or was truncated. Another process can do that while a service
  // runs, and SQLite reports it only at the next start. True for a file that has no header yet.
  bool is_whole() const;
  // Fills the WAL's index (NAME-shm) with zeros if another process truncated it: SQLite then builds it anew from the
  // WAL. Call it before a use, outside of transactions.
  void keep_index_whole() const noexcept;
  // Throws Error{kIo} if an index was cut since the last keep_index_whole(): what was read since may be old.
  void check_index() const;
  // From here on, errors name `original`, whose pages this database copies, as the damaged file.
  void is_copy_of(const Database& original) { whose_damage_ = original.name_; }

 private:
  friend class Transaction;
  void run(const std::string& sql);

  struct Closer {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::string name_, whose_damage_, index_name_;
  mutable bool had_header_ = false;
  mutable std::int64_t whole_bytes_ = 0;  // when it was last seen to be as long as its header says
  mutable FileIdentity index_;            // of NAME-shm, when it was last seen
  mutable std::int64_t index_bytes_ = 0;  // most that it was seen to have
  mutable std::uint64_t index_cuts_;      // index_cuts(), when it was last made whole
  std::unique_ptr<sqlite3, Closer> handle_;
};

// A note for an I/O error when the disk of `file` is full, which SQLite reports as "disk I/O error". Empty if there is
// room or it is unknown.
std::string full_disk_text(const std::filesystem::path& file);

// Refuses an output path that is the database `file` or one of SQLite's files beside it, also through links. Writing
// there would destroy the database. Error{kInvalidArgument} naming `option`, which gave the path, such as "--out".
void refuse_database_as_output(const std::filesystem::path& out, const std::filesystem::path& file,
                               const std::string& option);

// A transaction that writes. Its end without commit() rolls it back. Threads: the database's.
class Transaction {
 public:
  explicit Transaction(Database& database);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  // Error{kIo} also if the WAL's index was cut meanwhile, since rows may have been written into old pages.
  void commit();

 private:
  Database& database_;
};

// A prepared statement. Values are passed as bound parameters only. The Database must outlive it.
class Statement {
 public:
  Statement(const Database& database, const std::string& sql);

  // Binds all parameters in order, runs to the end and resets.
  template <class... Values>
  void run(const Values&... values) {
    bind_all(values...);
    while (step()) {
    }
  }
  template <class... Values>
  void bind_all(const Values&... values) {
    reset();
    int index = 0;
    (bind(++index, values), ...);
  }
  bool step();  // true: a row is available; false: done, and reset
  void reset();

  int columns() const { return sqlite3_column_count(handle_.get()); }
  std::string name(int column) const;
  bool is_null(int column) const { return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL; }
  int type(int column) const { return sqlite3_column_type(handle_.get(), column); }
  std::int64_t integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  double real(int column) const { return sqlite3_column_double(handle_.get(), column); }
  std::string text(int column) const;

 private:
  void bind(int index, std::int64_t value);
  void bind(int index, std::uint64_t value) { bind(index, static_cast<std::int64_t>(value)); }
  void bind(int index, int value) { bind(index, std::int64_t{value}); }
  void bind(int index, double value);  // non-finite values become 0, since SQLite would store NULL
  void bind(int index, const std::string& value);

  struct Finalizer {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  const Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalizer> handle_;
};

}  // namespace slip
