// Preloaded into a program: writes each launch of a kernel, and what its arguments point to.
//
// The runtime of CUDA, static or not, finds the driver's functions by dlsym and cuGetProcAddress.
// Both are answered here with functions of this file, which write and then call the driver's.
// KB_LAUNCHES is the folder to write to, KB_LAUNCH_NAME a part of the kernel's mangled name.
// A line is {"name", "grid", "block", "shared", "arguments": [{"bytes", "memory": [[at, left, offset]]}]}:
// bytes in hexadecimal, with zeros for each pointer; of the memory that the pointer at this place
// points into, what is left behind it, and where in the allocation it points.
// What the first launches find behind each pointer is in a file of its own: values, process, launch,
// argument and place, with - between. A line {"written": [launch, argument, place, end, kept, ...]}
// says up to which byte of it the launch changed something, and how many elements of 1, 2, 4 and 8
// bytes it left as they were.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kMostLaunches = 256;  // different ones that are written
constexpr std::size_t kMostNames = 400;    // of other kernels
constexpr std::size_t kMostRead = 6;       // launches whose arrays are read
constexpr unsigned kMostWaits = 50000, kWaitMicroseconds = 100;
constexpr int kNotReady = 600;             // CUDA_ERROR_NOT_READY
constexpr std::size_t kMostBytes = 4 << 20, kMostBytesInAll = 64 << 20;  // of an array, of all

struct Handle {
  std::string name;
  bool is_kernel;  // of a library, not of a module
};
struct Config {  // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned count;
};

struct State {
  std::recursive_mutex mutex;
  std::map<void*, Handle> handles;
  std::map<std::string, void*> reals;
  std::map<std::string, long> counts;
  std::vector<std::string> lines;
  std::set<std::string> seen;
  std::size_t read_bytes = 0;
  long others = 0;  // launches that are not written
  pid_t owner = 0;
};

State& state() {  // never destroyed: a program may look symbols up before and after this file's own
  static State* only = new State;
  return *only;
}
using Lock = std::lock_guard<std::recursive_mutex>;

using Find = void* (*)(void*, const char*) noexcept;

Find find_real() {
  static Find find = nullptr;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
    if (!find) find = reinterpret_cast<Find>(dlvsym(RTLD_NEXT, "dlsym", version));
  return find;
}

template <typename Function>
Function find_driver(const char* name) {
  Lock lock(state().mutex);
  void*& real = state().reals[name];
  if (!real) real = find_real()(RTLD_NEXT, name);
  if (!real)
    if (void* driver = dlopen("libcuda.so.1", RTLD_NOW)) real = find_real()(driver, name);
  return reinterpret_cast<Function>(real);
}

std::string get_name(void* function) {
  auto known = state().handles.find(function);
  if (known != state().handles.end()) return known->second.name;
  const char* name = nullptr;
  auto ask = find_driver<int (*)(const char**, void*)>("cuFuncGetName");
  return ask && ask(&name, function) == 0 && name ? name : "";
}

// Whether argument i exists; its place in a buffer and its size.
bool find_argument(void* function, std::size_t i, std::size_t* place, std::size_t* size) {
  auto known = state().handles.find(function);
  bool is_kernel = known != state().handles.end() && known->second.is_kernel;
  auto ask = find_driver<int (*)(void*, std::size_t, std::size_t*, std::size_t*)>(
      is_kernel ? "cuKernelGetParamInfo" : "cuFuncGetParamInfo");
  return ask && ask(function, i, place, size) == 0;
}

struct Pointer {
  std::size_t argument, at;
  std::uintptr_t address;
  std::size_t left;
  std::vector<unsigned char> before;  // what a launch finds there, where it was read
};
struct Launch {
  std::size_t number;
  void* stream;
  std::vector<Pointer> pointers;
};

std::string describe_argument(
    const unsigned char* value, std::size_t size, std::size_t number, std::vector<Pointer>* pointers) {
  auto ask = find_driver<int (*)(std::uintptr_t*, std::size_t*, std::uintptr_t)>(
      "cuMemGetAddressRange_v2");
  std::vector<unsigned char> bytes(value, value + size);
  std::string memory;
  for (std::size_t at = 0; ask && at + 8 <= size; at += 8) {
    std::uintptr_t word, base = 0;
    std::size_t length = 0;
    std::memcpy(&word, value + at, 8);
    if (word < 4096 || ask(&base, &length, word) != 0) continue;
    std::memset(bytes.data() + at, 0, 8);
    pointers->push_back({number, at, word, base + length - word, {}});
    memory += (memory.empty() ? "[" : ", [") + std::to_string(at) + ", " +
              std::to_string(base + length - word) + ", " + std::to_string(word - base) + "]";
  }
  std::string text;
  char pair[3];
  for (unsigned char each : bytes) std::snprintf(pair, 3, "%02x", each), text += pair;
  return "{\"bytes\": \"" + text + "\", \"memory\": [" + memory + "]}";
}

void append(const std::string& name, const void* text, std::size_t size) {
  const char* folder = std::getenv("KB_LAUNCHES");
  if (!folder) return;
  if (std::FILE* file = std::fopen((std::string(folder) + "/" + name).c_str(), "ab")) {
    std::fwrite(text, 1, size, file);
    std::fclose(file);
  }
}

void write_line(const std::string& line) {
  append("launches-" + std::to_string(getpid()) + ".jsonl", (line + "\n").data(), line.size() + 1);
}

// Whether the work of the launch's stream is done; not while the stream records a graph, and not of
// a kernel that waits for one that is launched later.
bool wait_for(const Launch& launch) {
  auto is_capturing = find_driver<int (*)(void*, int*)>("cuStreamIsCapturing");
  auto query = find_driver<int (*)(void*)>("cuStreamQuery");
  int status = 0;
  if (!is_capturing || !query || is_capturing(launch.stream, &status) != 0 || status != 0) return false;
  for (unsigned waited = 0; waited < kMostWaits; ++waited, usleep(kWaitMicroseconds))
    if ((status = query(launch.stream)) != kNotReady) return status == 0;
  return false;
}

bool read_memory(std::uintptr_t address, std::vector<unsigned char>* bytes) {
  auto read = find_driver<int (*)(void*, std::uintptr_t, std::size_t)>("cuMemcpyDtoH_v2");
  return read && read(bytes->data(), address, bytes->size()) == 0;
}

// Reads what a launch will find behind its pointers.
void write_values(Launch* launch) {
  if (launch->number >= kMostRead || !wait_for(*launch)) return;
  for (Pointer& each : launch->pointers) {
    std::vector<unsigned char> bytes(each.left < kMostBytes ? each.left : kMostBytes);
    if (state().read_bytes + bytes.size() > kMostBytesInAll) return;
    if (!read_memory(each.address, &bytes)) continue;
    state().read_bytes += bytes.size();
    append("values-" + std::to_string(getpid()) + "-" + std::to_string(launch->number) + "-" +
               std::to_string(each.argument) + "-" + std::to_string(each.at),
           bytes.data(), bytes.size());
    each.before.swap(bytes);
  }
}

// How many elements of a size are the same before and after a launch.
std::size_t count_kept(const std::vector<unsigned char>& before,
                       const std::vector<unsigned char>& after, std::size_t size) {
  std::size_t kept = 0;
  for (std::size_t at = 0; at + size <= after.size(); at += size)
    kept += std::memcmp(&before[at], &after[at], size) == 0;
  return kept;
}

// Compares what was read before a launch with what it left.
void write_changes(const Launch& launch) {
  Lock lock(state().mutex);
  bool is_read = false;
  for (const Pointer& each : launch.pointers) is_read |= !each.before.empty();
  if (!is_read || !wait_for(launch)) return;
  for (const Pointer& each : launch.pointers) {
    std::vector<unsigned char> after(each.before.size());
    if (after.empty() || !read_memory(each.address, &after)) continue;
    std::size_t end = after.size();
    while (end > 0 && after[end - 1] == each.before[end - 1]) --end;
    std::string line = "{\"written\": [" + std::to_string(launch.number) + ", " +
                       std::to_string(each.argument) + ", " + std::to_string(each.at) + ", " +
                       std::to_string(end);
    for (std::size_t size : {1, 2, 4, 8})
      line += ", " + std::to_string(count_kept(each.before, after, size));
    write_line(line + "]}");
  }
}

std::string write_three(const unsigned* each) {
  return "[" + std::to_string(each[0]) + ", " + std::to_string(each[1]) + ", " +
         std::to_string(each[2]) + "]";
}

// The launch with what was read before it; without pointers where nothing was.
Launch record(void* function, const Config& config, void** arguments, void** extra) {
  Launch launch{0, config.stream, {}};
  State& own = state();
  Lock lock(own.mutex);
  if (own.owner != getpid()) {  // forked: its parent writes what it saw
    own.owner = getpid();
    own.counts.clear(), own.lines.clear(), own.seen.clear();
    own.read_bytes = 0, own.others = 0;
  }
  const char* wanted = std::getenv("KB_LAUNCH_NAME");
  std::string name = get_name(function);
  if (!wanted || name.find(wanted) == std::string::npos) {
    if (own.seen.size() < kMostNames && own.seen.insert(name).second)
      write_line("{\"seen\": \"" + name + "\"}");
    return launch;
  }
  const unsigned char* buffer = nullptr;  // of CU_LAUNCH_PARAM_BUFFER_POINTER
  for (void** each = extra; each && *each; each += 2)
    if (*each == reinterpret_cast<void*>(1)) buffer = static_cast<unsigned char*>(each[1]);
  std::string told;
  std::size_t place, size;
  for (std::size_t i = 0; find_argument(function, i, &place, &size); ++i) {
    auto value = buffer ? buffer + place : static_cast<unsigned char*>(arguments ? arguments[i] : nullptr);
    if (!value) break;
    told += (told.empty() ? "" : ", ") + describe_argument(value, size, i, &launch.pointers);
  }
  std::string line = "{\"name\": \"" + name + "\", \"grid\": " + write_three(config.grid) +
                     ", \"block\": " + write_three(config.block) + ", \"shared\": " +
                     std::to_string(config.shared) + ", \"arguments\": [" + told + "]}";
  if (own.counts.count(line) == 0 && own.lines.size() == kMostLaunches) {
    ++own.others;
    return launch;
  }
  if (own.counts.count(line) == 0) {
    own.lines.push_back(line);
    launch.number = own.lines.size() - 1;
    write_line(line);
    write_values(&launch);
  }
  ++own.counts[line];
  return launch;
}

__attribute__((destructor)) void write_counts() {
  State& own = state();
  if (own.owner != getpid() || own.lines.empty()) return;
  std::string text;
  for (const std::string& each : own.lines)
    text += (text.empty() ? "" : ", ") + std::to_string(own.counts[each]);
  write_line("{\"counts\": [" + text + "], \"others\": " + std::to_string(own.others) + "}");
}

void keep(void* handle, const char* name, bool is_kernel) {
  Lock lock(state().mutex);
  state().handles[handle] = {name, is_kernel};
}

void* replace(const std::string& name, void* real);

}  // namespace

#define KB_LAUNCH(NAME)                                                                          \
  extern "C" int NAME(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,        \
                      unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments, \
                      void** extra) {                                                            \
    Launch launch =                                                                              \
        record(function, {{gx, gy, gz}, {bx, by, bz}, shared, stream, nullptr, 0}, arguments, extra); \
    int status = find_driver<decltype(&NAME)>(#NAME)(function, gx, gy, gz, bx, by, bz, shared,   \
                                                     stream, arguments, extra);                  \
    if (status == 0) write_changes(launch);                                                      \
    return status;                                                                               \
  }
#define KB_LAUNCH_WITH_CONFIG(NAME)                                                             \
  extern "C" int NAME(const Config* config, void* function, void** arguments, void** extra) {   \
    Launch launch = record(function, *config, arguments, extra);                                \
    int status = find_driver<decltype(&NAME)>(#NAME)(config, function, arguments, extra);       \
    if (status == 0) write_changes(launch);                                                     \
    return status;                                                                              \
  }
#define KB_COOPERATIVE(NAME)                                                                      \
  extern "C" int NAME(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,         \
                      unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments) { \
    Launch launch =                                                                               \
        record(function, {{gx, gy, gz}, {bx, by, bz}, shared, stream, nullptr, 0}, arguments, nullptr); \
    int status = find_driver<decltype(&NAME)>(#NAME)(function, gx, gy, gz, bx, by, bz, shared,    \
                                                     stream, arguments);                          \
    if (status == 0) write_changes(launch);                                                       \
    return status;                                                                                \
  }
KB_LAUNCH(cuLaunchKernel)
KB_LAUNCH(cuLaunchKernel_ptsz)
KB_LAUNCH_WITH_CONFIG(cuLaunchKernelEx)
KB_LAUNCH_WITH_CONFIG(cuLaunchKernelEx_ptsz)
KB_COOPERATIVE(cuLaunchCooperativeKernel)
KB_COOPERATIVE(cuLaunchCooperativeKernel_ptsz)

extern "C" int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto real = find_driver<decltype(&cuModuleGetFunction)>("cuModuleGetFunction");
  int status = real(function, module, name);
  if (status == 0) keep(*function, name, false);
  return status;
}

extern "C" int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  auto real = find_driver<decltype(&cuLibraryGetKernel)>("cuLibraryGetKernel");
  int status = real(kernel, library, name);
  if (status == 0) keep(*kernel, name, true);
  return status;
}

extern "C" int cuKernelGetFunction(void** function, void* kernel) {
  int status = find_driver<decltype(&cuKernelGetFunction)>("cuKernelGetFunction")(function, kernel);
  auto known = state().handles.find(kernel);
  if (status == 0 && known != state().handles.end())
    keep(*function, std::string(known->second.name).c_str(), false);
  return status;
}

// The symbol's variant: of a thread's own default stream, and of version 12 of the driver.
static std::string choose_variant(const char* symbol, int version, std::uint64_t flags) {
  std::string name = symbol;
  if (name == "cuGetProcAddress" && version >= 12000) return name + "_v2";
  bool is_launch = name.rfind("cuLaunch", 0) == 0;
  return is_launch && (flags & 2) ? name + "_ptsz" : name;
}

extern "C" int cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  auto real = find_driver<decltype(&cuGetProcAddress)>("cuGetProcAddress");
  int status = real(symbol, function, version, flags);
  if (status == 0 && *function) *function = replace(choose_variant(symbol, version, flags), *function);
  return status;
}

extern "C" int cuGetProcAddress_v2(
    const char* symbol, void** function, int version, std::uint64_t flags, void* found) {
  auto real = find_driver<decltype(&cuGetProcAddress_v2)>("cuGetProcAddress_v2");
  int status = real(symbol, function, version, flags, found);
  if (status == 0 && *function) *function = replace(choose_variant(symbol, version, flags), *function);
  return status;
}

namespace {

void* replace(const std::string& name, void* real) {
  static const std::map<std::string, void*> own = {
#define KB_OWN(NAME) {#NAME, reinterpret_cast<void*>(&NAME)}
      KB_OWN(cuLaunchKernel),      KB_OWN(cuLaunchKernel_ptsz),
      KB_OWN(cuLaunchKernelEx),    KB_OWN(cuLaunchKernelEx_ptsz),
      KB_OWN(cuLaunchCooperativeKernel), KB_OWN(cuLaunchCooperativeKernel_ptsz),
      KB_OWN(cuModuleGetFunction), KB_OWN(cuLibraryGetKernel),
      KB_OWN(cuKernelGetFunction), KB_OWN(cuGetProcAddress),
      KB_OWN(cuGetProcAddress_v2)};
  auto found = own.find(name);
  if (found == own.end() || real == found->second) return real;
  Lock lock(state().mutex);
  state().reals[name] = real;
  return found->second;
}

}  // namespace

__attribute__((noinline)) static void* find_of_driver(void* library, const char* name) {
  void* real = find_real()(library, name);
  return real ? replace(name, real) : real;
}

// For other names a jump, with -O2: what RTLD_NEXT means depends on who calls.
extern "C" void* dlsym(void* library, const char* name) noexcept {
  Find real = find_real();
  if (name[0] != 'c' || name[1] != 'u') return real(library, name);
  return find_of_driver(library, name);
}
