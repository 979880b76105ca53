// One register block of a matrix product: UR rows by NB vectors of 16 columns, c[i][j] = sum over k of a[i][k] b[k][j].
//
// Instance: UR, NB. AVX-512 holds NB * UR <= 28 accumulators, AVX2 6.
//
// a            row i, column k at a[i * a_row + k * a_step];  b: row k at b + k * b_row, NB * 16 floats
// c, c_row     the result, at any alignment; of its NB * 16 columns the first `columns` exist and are written
// depth        products in a sum
// begun        whether c has the sum of the products before these
// ahead, step  what is fetched into the second-level cache meanwhile: with each k the lines at ahead (two, or with few rows
//              NB of them), and ahead moves on by step floats; b and 0 for nothing
//
// The lines of c are asked for first, so that they are there when the sums are: a result that is wider than the cache
// would wait for memory at every row of a block.
//
// The sums run in float with fma, in order, SUMMED products at a time, whose sums are then added to c in order:
// |error| <= (min(depth, SUMMED) + depth / SUMMED) 2^-24 sum |a b|.
#include "post_tile.clh"

#ifndef UR
  #define UR 6
#endif
#ifndef NB
  #define NB 4
#endif
#define SUMMED 1024
#define FETCHED (UR < 4 ? NB : 2)

NOINLINE static void micro_matmul(__global const float* restrict a, const long a_row, const int a_step,
                                  __global const float* restrict b, const int b_row, __global float* restrict c,
                                  const int c_row, const int columns, const int depth, const int begun,
                                  __global const float* ahead, const int step) {
  #pragma unroll
  for (int i = 0; i < UR; i++) {
    #pragma unroll
    for (int j = 0; j < NB; j++) FETCH_TO_WRITE(c + (long)i * c_row + j * 16);
  }
  float16 sum[NB][UR];
  for (int done = 0; done == 0 || done < depth; done += SUMMED) {
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      #pragma unroll
      for (int i = 0; i < UR; i++) sum[j][i] = 0.0f;
    }
    const int count = min(depth - done, SUMMED);
    int k = 0;
#if NB == 1 && UR > 6
    // Addresses of many rows are made one of another: four products with each are as many as the additions leave time for.
    for (; a_step == 1 && k + 4 <= count; k += 4, a += 4, b += 4l * b_row, ahead += 4l * step) {
      float16 w[4];
      #pragma unroll
      for (int u = 0; u < 4; u++) w[u] = LOAD_LOOSE(b + (long)u * b_row);
      #pragma unroll
      for (int i = 0; i < UR; i++) {
        __global const float* row = a + i * a_row;
        #pragma unroll
        for (int u = 0; u < 4; u++) sum[0][i] = fma((float16)(row[u]), w[u], sum[0][i]);
      }
    }
#endif
    #pragma unroll 1
    for (; k < count; k++, a += a_step, b += b_row, ahead += step) {
      #pragma unroll
      for (int l = 0; l < FETCHED; l++) FETCH(ahead + l * 16);
      float16 w[NB];
      #pragma unroll
      for (int j = 0; j < NB; j++) w[j] = LOAD_LOOSE(b + j * 16);
      #pragma unroll
      for (int i = 0; i < UR; i++) {
        const float16 v = (float16)(a[i * a_row]);
        #pragma unroll
        for (int j = 0; j < NB; j++) sum[j][i] = fma(v, w[j], sum[j][i]);
      }
    }
    if (columns >= NB * 16) {
      #pragma unroll
      for (int i = 0; i < UR; i++) {
        #pragma unroll
        for (int j = 0; j < NB; j++) {
          __global float* to = c + (long)i * c_row + j * 16;
          STORE_LOOSE(to, done || begun ? LOAD_LOOSE(to) + sum[j][i] : sum[j][i]);
        }
      }
      continue;
    }
    float16 rows[UR][NB];
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      #pragma unroll
      for (int j = 0; j < NB; j++) rows[i][j] = sum[j][i];
    }
    for (int i = 0; i < UR; i++)
      for (int j = 0; j * 16 < columns; j++) {
        __global float* to = c + (long)i * c_row + j * 16;
        const int lanes = min(16, columns - j * 16);
        store_lanes(to, done || begun ? load_lanes(to, 1, lanes) + rows[i][j] : rows[i][j], lanes);
      }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_matmul_alone(__global const float* a, __global const float* b, __global float* c, const int depth) {
  micro_matmul(a, depth, 1, b, NB * 16, c, NB * 16, NB * 16, depth, 0, b, 0);
}
#endif
