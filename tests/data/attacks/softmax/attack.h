// A correct softmax, and what the attacks include.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
#include <vector>

static void honest(const float* x, float* y, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    float* out = y + row * cols;
    float top = in[0];
    for (std::int64_t i = 1; i < cols; ++i) top = in[i] > top ? in[i] : top;
    float sum = 0;
    for (std::int64_t i = 0; i < cols; ++i) sum += out[i] = std::exp(in[i] - top);
    for (std::int64_t i = 0; i < cols; ++i) out[i] /= sum;
  }
}
