// Measures reading between much arithmetic, as products with weights of few bits read: each work-item goes through `count`
// vectors (a multiple of 4) with ten operations for each, so that a core's window of instructions holds about twenty.
//
// ahead: whether each line of 64 bytes is fetched, into the second-level cache 8 KiB before it is read and next to the core
//        1280 bytes before
// y: a vector of sums for each work-item. Any grid.
// CLGRAPH_PREFETCH (not defined): the compiler is clang, for a CPU; without, nothing is fetched ahead
#include "lanes.clh"

__kernel void canary_stream(__global const int* x, __global int* y, const int count, const int ahead) {
  __global const int* from = x + (long)get_global_id(0) * count * SIMD;
  I sum[4][3];
  #pragma unroll
  for (int j = 0; j < 4; j++) sum[j][0] = sum[j][1] = sum[j][2] = 0;
  #pragma unroll 1
  for (int k = 0; k < count; k += 4, from += 4 * SIMD) {
  #ifdef CLGRAPH_PREFETCH
    #pragma unroll
    for (int line = 0; ahead && line < 4 * SIMD; line += 16) {
      __builtin_prefetch(from + line + 2048, 0, 2);
      __builtin_prefetch(from + line + 320, 0, 3);
    }
  #endif
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      const I v = LOAD(j, from), low = v & 0x0f0f0f0f, high = v >> 4 & 0x0f0f0f0f;
      sum[j][0] = (sum[j][0] + low) ^ high;
      sum[j][1] = (sum[j][1] ^ low) + high;
      sum[j][2] = (sum[j][2] - low) ^ high;
    }
  }
  I all = 0;
  #pragma unroll
  for (int j = 0; j < 4; j++) all ^= sum[j][0] + sum[j][1] + sum[j][2];
  STORE(all, get_global_id(0), y);
}
