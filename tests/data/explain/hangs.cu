// Kernels that do not end; each has a name, and the lines where threads wait end with "waits".
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

__device__ int flag, other_flag;
__device__ unsigned arrived;

__device__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void init_barrier(uint64_t *b, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count));
}
__device__ void arrive(uint64_t *b) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(shared_address(b)) : "memory");
}
__device__ void expect_bytes(uint64_t *b, int bytes) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
__device__ void wait(uint64_t *b, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@done bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(shared_address(b)), "r"(parity) : "memory");
}
__device__ void copy_bulk(void *to, const void *from, int bytes, uint64_t *b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(b)) : "memory");
}

__global__ void flag_ring(const float *in, float *out, int tiles) {
  __shared__ volatile int full[2];
  __shared__ float buffer[2][32];
  if (threadIdx.x < 2) full[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles - 1; i++) {
      buffer[i & 1][threadIdx.x] = in[i * 32 + threadIdx.x];
      __threadfence_block();
      full[i & 1] = i + 1;
      __nanosleep(200);
    }
  } else {
    float sum = 0;
    for (int i = 0; i < tiles; i++) {
      while (full[i & 1] < i + 1) __nanosleep(50);  // waits
      sum += buffer[i & 1][threadIdx.x & 31];
    }
    out[threadIdx.x] = sum;
  }
}

__global__ void barrier_ring(const float *in, float *out, int tiles) {
  __shared__ alignas(8) uint64_t full[2];
  if (threadIdx.x == 0) {
    init_barrier(&full[0], 1);
    init_barrier(&full[1], 1);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles - 1; i++) {
      if (threadIdx.x == 0) arrive(&full[i & 1]);
      __nanosleep(1000);
    }
  } else {
    for (int i = 0; i < tiles; i++) {
      wait(&full[i & 1], (i >> 1) & 1);  // waits
    }
    out[threadIdx.x] = tiles;
  }
}

__global__ void too_few_arrive(float *out) {
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) init_barrier(&full, 64);
  __syncthreads();
  if (threadIdx.x < 32) arrive(&full);
  wait(&full, 0);  // waits
  out[threadIdx.x] = 1;
}

__global__ void wrong_parity(const float *in, float *out) {
  __shared__ alignas(8) uint64_t full, empty;
  __shared__ float buffer[32];
  if (threadIdx.x == 0) {
    init_barrier(&full, 32);
    init_barrier(&empty, 32);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    wait(&empty, 0);  // waits
    buffer[threadIdx.x] = in[threadIdx.x];
    arrive(&full);
  } else if (threadIdx.x < 64) {
    wait(&full, 0);  // waits
    out[threadIdx.x] = buffer[threadIdx.x - 32];
    arrive(&empty);
  }
}

__global__ void too_many_bytes(const float *in, float *out) {
  __shared__ alignas(128) float tile[256];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    init_barrier(&full, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    expect_bytes(&full, 2048);
    copy_bulk(tile, in, 1024, &full);
  }
  wait(&full, 0);  // waits
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void copy_never_issued(const float *in, float *out, int n) {
  __shared__ alignas(128) float tile[256];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    init_barrier(&full, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    expect_bytes(&full, 1024);
    if (n > 256) copy_bulk(tile, in, 1024, &full);
  }
  wait(&full, 0);  // waits
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void divergent_syncthreads(float *out, int n) {
  __shared__ volatile int done;
  if (threadIdx.x == 0) done = 0;
  __syncthreads();
  if (threadIdx.x < n) {
    out[threadIdx.x] = 1;
    __syncthreads();  // waits
    done = 1;
  } else {
    while (!done) __nanosleep(100);  // waits
  }
}

__global__ void named_barrier_count(float *out) {
  if (threadIdx.x < 64) {
    out[threadIdx.x] = 1;
    asm volatile("bar.sync 3, 128;" ::: "memory");  // waits
    out[threadIdx.x] = 2;
  } else {
    out[threadIdx.x] = 3;
  }
}

__global__ void named_barriers_crossed(float *out) {
  if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 128;" ::: "memory");  // waits
    out[threadIdx.x] = 1;
    asm volatile("bar.sync 2, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 128;" ::: "memory");  // waits
    out[threadIdx.x] = 2;
    asm volatile("bar.sync 1, 128;" ::: "memory");
  }
}

__global__ void grid_barrier(float *out) {
  if (threadIdx.x == 0) {
    atomicAdd(&arrived, 1);
    while (atomicAdd(&arrived, 0) < gridDim.x) __nanosleep(100);  // waits
  }
  __syncthreads();  // waits
  out[blockIdx.x] = 1;
}

__global__ void lock_kept(float *out, int n) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&flag, 0, 1) != 0) __nanosleep(20);  // waits
    if (atomicAdd(&other_flag, 1) == n) return;
    out[0] += 1;
    __threadfence();
    atomicExch(&flag, 0);
  }
}

__global__ void neighbour_left(float *out, volatile int *ready) {
  if (blockIdx.x % 2 == 0) {
    if (threadIdx.x == 0)
      while (ready[blockIdx.x + 1] == 0) {  // waits
      }
    __syncthreads();  // waits
    out[blockIdx.x] = 1;
  } else if (blockIdx.x != 3) {
    if (threadIdx.x == 0) ready[blockIdx.x] = 1;
  }
}

__global__ void shuffle_mask(float *out, volatile int *stop) {
  float v = threadIdx.x;
  if (threadIdx.x < 16) {
    v += __shfl_down_sync(0xffffffffu, v, 8);  // waits
  } else {
    while (*stop == 0) {  // waits
    }
  }
  out[threadIdx.x] = v;
}

__global__ void syncwarp_mask(float *out, volatile int *stop) {
  if (threadIdx.x % 32 < 8) {
    out[threadIdx.x] = 1;
    __syncwarp(0xffff);  // waits
    *stop = 1;
  } else {
    while (*stop == 0) __nanosleep(40);  // waits
  }
}

__global__ void __cluster_dims__(2, 1, 1) cluster_barrier(float *out, volatile int *stop) {
  if (blockIdx.x % 2 == 0) {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");  // waits
    out[blockIdx.x] = 1;
  } else {
    while (*stop == 0) __nanosleep(40);  // waits
  }
}

__global__ void stride_zero(const float *in, float *out, int n, int stride) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += stride) sum += in[i];  // waits
  out[threadIdx.x] = sum;
}

__global__ void never_converges(float *out, float a) {
  float x = a + threadIdx.x, step = 1;
  while (!(fabsf(step) < 1e-6f)) {  // waits
    step = (x * x - a) / (2 * x);  // waits
    x = x - step + (a - a);  // waits
  }
  out[threadIdx.x] = x;
}

__global__ void list_with_cycle(const int *next, int *out) {
  int at = threadIdx.x, length = 0;
  while (at >= 0) {  // waits
    at = next[at];  // waits
    length++;  // waits
  }
  out[threadIdx.x] = length;
}

__global__ void host_flag(volatile int *mapped, float *out) {
  if (threadIdx.x == 0)
    while (*mapped == 0) {  // waits
    }
  __syncthreads();  // waits
  out[threadIdx.x] = 1;
}

__global__ void wait_for_later(float *out) {
  while (((volatile int *)&other_flag)[0] == 0) __nanosleep(100);  // waits
  out[threadIdx.x] = 1;
}
__global__ void set_flag() { other_flag = 1; }

__global__ void persistent(int *mine, volatile int *theirs, float *out) {
  if (threadIdx.x == 0) {
    atomicAdd(mine, 1);
    while (*theirs < (int)gridDim.x) __nanosleep(100);  // waits
  }
  __syncthreads();  // waits
  out[blockIdx.x] = 1;
}

__global__ void __launch_bounds__(384, 1) registers_not_released(float *out, int n) {
  if (threadIdx.x < 128) {
    if (n > 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    while (((volatile int *)&flag)[0] == 0) __nanosleep(100);  // waits
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");  // waits
    out[threadIdx.x] = 1;
    flag = 1;
  }
}


#include <cooperative_groups.h>
#include <cuda/barrier>

__global__ void library_barrier(float *out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  if (threadIdx.x < 96) bar.arrive_and_wait();  // waits
  out[threadIdx.x] = 1;
}

__global__ void library_grid(float *out, int n) {
  if (blockIdx.x == n) return;
  cooperative_groups::this_grid().sync();  // waits
  out[blockIdx.x] = 1;
}

struct Slot {
  uint64_t full;
  __device__ void wait_full(int phase) { wait(&full, phase & 1); }
};
struct Ring {
  Slot slots[2];
  __device__ void acquire(int i) { slots[i & 1].wait_full(i >> 1); }
};

__global__ void three_wrappers(float *out, int tiles) {
  __shared__ Ring ring;
  if (threadIdx.x < 2) init_barrier(&ring.slots[threadIdx.x].full, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles; i += 2) arrive(&ring.slots[0].full);
  } else {
    for (int i = 0; i < tiles; i++) {
      ring.acquire(i);  // waits
      out[threadIdx.x] += i;
    }
  }
}

__global__ void tile_shuffle(float *out, volatile int *stop) {
  auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  float v = threadIdx.x;
  if (tile.thread_rank() < 20) {
    v += tile.shfl_xor(v, 1);  // waits
  } else {
    while (*stop == 0) {  // waits
    }
  }
  out[threadIdx.x] = v;
}

struct TicketLock {
  int next, serving;
  __device__ int draw() { return atomicAdd(&next, 1); }
  __device__ void lock() {
    int mine = draw();
    while (atomicAdd(&serving, 0) != mine) __nanosleep(30);  // waits
  }
  __device__ void unlock() { atomicAdd(&serving, 1); }
};

__global__ void ticket_lock(TicketLock *lock, float *out) {
  if (threadIdx.x == 0) {
    lock->lock();
    out[0] += 1;
    if (out[0] < 3) lock->unlock();
  }
}

int main(int argc, char **argv) {
  const char *name = argv[1];
  float *in, *out;
  int *ints, *mapped;
  cudaMalloc(&in, 1 << 20);
  cudaMalloc(&out, 1 << 20);
  cudaMalloc(&ints, 1 << 20);
  cudaMemset(in, 0, 1 << 20);
  cudaMemset(out, 0, 1 << 20);
  cudaMemset(ints, 0, 1 << 20);
  cudaHostAlloc(&mapped, 4, cudaHostAllocMapped);
  *mapped = 0;
  cudaStream_t s, t;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
  int next[64];
  for (int i = 0; i < 64; i++) next[i] = i == 40 ? 3 : i + 1;
  next[63] = -1;
  cudaMemcpy(ints + 1024, next, sizeof next, cudaMemcpyDefault);
#define IS(x) (strcmp(name, #x) == 0)
  if (IS(flag_ring)) flag_ring<<<4, 128>>>(in, out, 13);
  if (IS(barrier_ring)) barrier_ring<<<4, 128>>>(in, out, 14);
  if (IS(too_few_arrive)) too_few_arrive<<<4, 64>>>(out);
  if (IS(wrong_parity)) wrong_parity<<<4, 128>>>(in, out);
  if (IS(too_many_bytes)) too_many_bytes<<<4, 256>>>(in, out);
  if (IS(copy_never_issued)) copy_never_issued<<<4, 256>>>(in, out, 256);
  if (IS(divergent_syncthreads)) divergent_syncthreads<<<2, 128>>>(out, 96);
  if (IS(named_barrier_count)) named_barrier_count<<<2, 128>>>(out);
  if (IS(named_barriers_crossed)) named_barriers_crossed<<<2, 128>>>(out);
  if (IS(grid_barrier)) grid_barrier<<<2000, 256>>>(out);
  if (IS(lock_kept)) lock_kept<<<16, 64>>>(out, 5);
  if (IS(neighbour_left)) neighbour_left<<<8, 64>>>(out, ints);
  if (IS(shuffle_mask)) shuffle_mask<<<1, 32>>>(out, ints);
  if (IS(syncwarp_mask)) syncwarp_mask<<<1, 64>>>(out, ints);
  if (IS(cluster_barrier)) cluster_barrier<<<4, 64>>>(out, ints);
  if (IS(stride_zero)) stride_zero<<<2, 64>>>(in, out, 1000, 0);
  if (IS(never_converges)) never_converges<<<1, 64>>>(out, -2.0f);
  if (IS(list_with_cycle)) list_with_cycle<<<1, 64>>>(ints + 1024, ints);
  if (IS(host_flag)) host_flag<<<1, 64>>>(mapped, out);
  if (IS(wait_for_later)) wait_for_later<<<1, 32, 0, s>>>(out), set_flag<<<1, 1, 0, s>>>();
  if (IS(persistent)) persistent<<<132, 1024, 180000 * 0, s>>>(ints, ints + 1, out), persistent<<<264, 1024, 0, t>>>(ints + 1, ints, out);
  if (IS(registers_not_released)) registers_not_released<<<1, 384>>>(out, 0);
  if (IS(library_barrier)) library_barrier<<<2, 128>>>(out);
  if (IS(library_grid)) {
    int n = 1;
    void *arguments[] = {&out, &n};
    cudaLaunchCooperativeKernel((void *)library_grid, 4, 64, arguments, 0, nullptr);
  }
  if (IS(three_wrappers)) three_wrappers<<<2, 96>>>(out, 8);
  if (IS(tile_shuffle)) tile_shuffle<<<1, 32>>>(out, ints);
  if (IS(ticket_lock)) ticket_lock<<<8, 32>>>((TicketLock *)ints, out);
  printf("launched %s\n", cudaGetErrorString(cudaGetLastError()));
  fflush(stdout);
  printf("ended: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
