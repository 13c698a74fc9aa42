// kernel: csv_fields_per_record/before/cuda
// computes: the number of fields of each CSV record
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kBytes = 256;  // of a record

__global__ void __launch_bounds__(kThreads)
    count_record_fields(const std::uint8_t* __restrict__ records, int* __restrict__ fields, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  const std::uint8_t* record = records + static_cast<std::int64_t>(i) * kBytes;
  bool in_quotes = false;
  int count = 1;
  for (int k = 0; k < kBytes; ++k) {
    const std::uint8_t c = record[k];
    if (c == '"') {
      in_quotes = !in_quotes;
    } else if (c == ',' && !in_quotes) {
      ++count;
    }
  }
  fields[i] = count;
}

}  // namespace

extern "C" int count_fields(const std::uint8_t* records, int* fields, std::int64_t n,
                            void* stream) {
  const int blocks = static_cast<int>((n + kThreads - 1) / kThreads);
  count_record_fields<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      records, fields, static_cast<int>(n));
  return static_cast<int>(cudaGetLastError());
}
