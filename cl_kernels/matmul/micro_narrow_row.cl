// A row of floats times 64 columns of 16 bits an element.
//
// Instance: BFLOAT (whether b has bfloat16; else halves).
//
// a, a_step     the row, and floats from one column of it to the next
// b             [depth][64]
// c             the result, of whose 64 columns the first `columns` exist and are written
// depth         products in a sum
//
// The sums run as those of micro_matmul.cl do, on the same floats: the same bits, and error.
#include "narrow_floats.clh"
#include "post_tile.clh"

#ifndef BFLOAT
  #define BFLOAT 0
#endif
#define SUMMED 1024
#define AHEAD 4096  // elements that are fetched ahead: about what memory delivers in its latency

NOINLINE static void micro_narrow_row(__global const float* restrict a, const int a_step,
                                      __global const ushort* restrict b, __global float* restrict c, const int columns,
                                      const int depth) {
  float16 sum[4], total[4];
  #pragma unroll
  for (int j = 0; j < 4; j++) total[j] = 0.0f;
  for (int done = 0; done < depth; done += SUMMED) {
    #pragma unroll
    for (int j = 0; j < 4; j++) sum[j] = 0.0f;
    const int count = min(depth - done, SUMMED);
    #pragma unroll 2
    for (int k = 0; k < count; k++, a += a_step, b += 64) {
      if (STREAMS_FETCHED) FETCH(b + AHEAD);
      if (STREAMS_FETCHED) FETCH(b + AHEAD + 32);
      const float16 v = (float16)(*a);
      #pragma unroll
      for (int j = 0; j < 4; j++) sum[j] = fma(v, BFLOAT ? bfloats_at(b + j * 16) : halves_at(b + j * 16), sum[j]);
    }
    #pragma unroll
    for (int j = 0; j < 4; j++) total[j] = done ? total[j] + sum[j] : sum[j];
  }
  #pragma unroll
  for (int j = 0; j < 4; j++) {
    const int lanes = min(16, columns - j * 16);
    if (lanes > 0) store_lanes(c + j * 16, total[j], lanes);
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_narrow_row_alone(__global const float* a, __global const ushort* b, __global float* c, const int depth) {
  micro_narrow_row(a, 1, b, c, 64, depth);
}
#endif
