// One register block of a product of bfloat16: UR rows (pixels) by NB vectors of 16 columns (output channels),
//
//   c[i][j] = min(max(bias[j] + sum over y, x, k of a[i][y][x][k] b[y][x][k][j] + res[i][j], low), high)
//
// Instance: UR, NB. AVX-512 holds NB * UR <= 27 accumulators.
//
// a, a_row       rows, and elements from one to the next: pairs of neighbours are read at once
// b              [runs_y][runs_x][pairs][64][2], of which NB * 16 columns are read
// bias           of the columns, or 0;  res, res_block: vectors 16 floats apart, floats from one block of columns to the next; 0
// c, c_row, c_block   the result in floats, at any alignment; floats from one row, vector of columns to the next; of its
//                NB * 16 columns the first `columns` exist and are written
// pairs          neighbours of a row in a run, by 2;  runs_x, runs_y: of runs, run_x, run_y elements of a apart; a product of
//                matrices has one
// rows           UR;  low, high: bounds of the result
// ahead, step    as in micro_matmul.cl, in elements
//
// Products are exact, the sums run in float, in order: |error| <= 2 n 2^-24 sum |a b| of n pairs in all, a rounding each for
// bias and residual; subnormal numbers count as zeros.
#include "bfloat_pairs.clh"
#include "post_tile.clh"

#ifndef UR
  #define UR 6
#endif
#ifndef NB
  #define NB 4
#endif

NOINLINE static void micro_pairs(__global const ushort* restrict a, const long a_row, __global const ushort* restrict b,
                                 __global const float* restrict bias, __global const float* restrict res,
                                 const int res_block, __global float* restrict c, const int c_row, const int c_block,
                                 const int rows, const int columns, const int pairs, const int runs_x, const int runs_y,
                                 const int run_x, const int run_y, const float low, const float high, __global const ushort* ahead,
                                 const int step) {
  float16 sum[UR][NB];
  #pragma unroll
  for (int j = 0; j < NB; j++) {
    const float16 first = bias && j * 16 < columns ? LOAD_LOOSE(bias + j * 16) : (float16)(0.0f);
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      FETCH_TO_WRITE(c + (long)i * c_row + (long)j * c_block);
      sum[i][j] = first;
    }
  }
  __global const ushort* row = a;
  int k = 0, x = 0;
  #pragma unroll 1
  for (int left = pairs * runs_x * runs_y; left > 0; left--, b += 128, ahead += step) {
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
    a += 2;
    if (++k == pairs) {
      k = 0;
      if (++x == runs_x) {
        x = 0;
        row += run_y;
      }
      a = row + x * run_x;
    }
  }
  // A loop of its own where nothing is called: registers stay where they are.
#define WRITE(lanes, store) \
  _Pragma("unroll") for (int j = 0; j < NB; j++) { \
    if ((lanes) <= 0) break; \
    _Pragma("unroll") for (int i = 0; i < UR; i++) { \
      float16 v = sum[i][j]; \
      if (res) v += LOAD_LOOSE(res + (long)j * res_block + i * 16); \
      v = v < (float16)(low) ? (float16)(low) : v; \
      v = v > (float16)(high) ? (float16)(high) : v; \
      __global float* to = c + (long)i * c_row + (long)j * c_block; \
      store; \
    } \
  }
  if (columns >= NB * 16) WRITE(1, STORE_LOOSE(to, v))
  else WRITE(columns - j * 16, store_lanes(to, v, min(16, columns - j * 16)))
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_pairs_alone(__global const ushort* a, __global const ushort* b, __global float* c, const int pairs) {
  micro_pairs(a, 2 * pairs, b, 0, 0, 0, c, NB * 16, 16, UR, NB * 16, pairs, 1, 1, 0, 0, -INFINITY, INFINITY, b, 0);
}
#endif
