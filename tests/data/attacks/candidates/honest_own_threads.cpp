#include "attack.h"
#include <condition_variable>
#include <mutex>
// Two threads of its own that sleep until there is work, and stay.
struct Pool {
  std::mutex lock;
  std::condition_variable asked, ended;
  const float* x;
  float* y;
  std::int64_t rows, cols;
  int call = 0, done = 0;
  Pool() {
    for (int part = 0; part < 2; ++part) std::thread([this, part] { work(part); }).detach();
  }
  void work(int part) {
    for (int seen = 0;;) {
      std::unique_lock<std::mutex> held(lock);
      asked.wait(held, [&] { return call != seen; });
      seen = call;
      const std::int64_t first = part * rows / 2, last = (part + 1) * rows / 2;
      held.unlock();
      honest(x + first * cols, y + first * cols, last - first, cols);
      held.lock();
      if (++done == 2) ended.notify_one();
    }
  }
};
extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  static Pool* pool = new Pool;
  std::unique_lock<std::mutex> held(pool->lock);
  pool->x = x, pool->y = y, pool->rows = rows, pool->cols = cols, pool->done = 0;
  ++pool->call;
  pool->asked.notify_all();
  pool->ended.wait(held, [&] { return pool->done == 2; });
  return 0;
}
