// One register block of a product of bfloat16: UR rows by NB vectors of 16 columns, c[i][j] = sum over k of a[i][k] b[k][j].
//
// Instance: UR, NB. AVX-512 holds NB * UR <= 27 accumulators.
//
// a, a_row       rows, and elements from one to the next: pairs of neighbours are read at once
// b              [pairs][64][2], of which NB * 16 columns are read
// c, c_row       the result in floats, at any alignment; of its NB * 16 columns the first `columns` exist and are written
// pairs          products in a sum, by 2
// ahead, step    as in micro_matmul.cl, in elements
//
// Products are exact, the sums run in float, in order: |error| <= 2 pairs 2^-24 sum |a b|; subnormal numbers count as zeros.
#include "bfloat_pairs.clh"
#include "post_tile.clh"

#ifndef UR
  #define UR 6
#endif
#ifndef NB
  #define NB 4
#endif

NOINLINE static void micro_pairs(__global const ushort* restrict a, const long a_row, __global const ushort* restrict b,
                                 __global float* restrict c, const int c_row, const int columns, const int pairs,
                                 __global const ushort* ahead, const int step) {
  float16 sum[UR][NB];
  #pragma unroll
  for (int i = 0; i < UR; i++) {
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      FETCH_TO_WRITE(c + (long)i * c_row + j * 16);
      sum[i][j] = 0.0f;
    }
  }
  #pragma unroll 1
  for (int k = 0; k < pairs; k++, a += 2, b += 128, ahead += step) {
    FETCH(ahead);
    int16 w[NB];
    #pragma unroll
    for (int j = 0; j < NB; j++) w[j] = as_int16(LOAD_LOOSE((__global const float*)b + j * 16));
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      const int16 v = (int16)(*(__global const int*)(a + i * a_row));
      #pragma unroll
      for (int j = 0; j < NB; j++) sum[i][j] = add_pairs(sum[i][j], w[j], v);
    }
  }
  #pragma unroll
  for (int i = 0; i < UR; i++) {
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      const int lanes = min(16, columns - j * 16);
      if (lanes > 0) store_lanes(c + (long)i * c_row + j * 16, sum[i][j], lanes);
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_pairs_alone(__global const ushort* a, __global const ushort* b, __global float* c, const int pairs) {
  micro_pairs(a, 2 * pairs, b, c, NB * 16, NB * 16, pairs, b, 0);
}
#endif
