// Product of many rows in digits and a block of 32 columns of weights that are bytes, added to sums in memory.
//
// Instance: UR (rows at a time), DIGITS (bytes of a number of x: 3 or 1). AVX-512 holds 2 * UR * DIGITS <= 24 sums.
//
// x, sums, scales   of the block, as block_digits.cl writes them: of `rows` rows, and of those that make them a multiple of UR
// vectors           of 16 weights in the block
// q                 the weights, [vectors * 4][32] words of four neighbours
// scale, points     of the columns, [32]; zero points, by which the sums are yet to be multiplied, or null
// begun             whether c has the sums of other blocks
// c                 [rows][32] floats, for as many rows as are computed
//
// A row and column has the same operations in the same order as in micro_digits.cl, and its error.
#include "post_tile.clh"
#include "vnni.clh"

#ifndef UR
  #define UR 4
#endif
#ifndef DIGITS
  #define DIGITS 3
#endif

NOINLINE static void micro_digit_rows(__global const char* restrict x, __global const int* restrict sums,
                                      __global const float* restrict scales, const int rows, const int vectors,
                                      __global const int* restrict q, __global const float* restrict scale,
                                      __global const uchar* restrict points, const int begun, __global float* restrict c) {
  const int row = vectors * 16 * DIGITS;
  const float16 scale0 = LOAD_LOOSE(scale), scale1 = LOAD_LOOSE(scale + 16);
  #pragma unroll 1
  for (int y = 0; y < rows; y += UR, x += (UR - 1) * row, sums += UR * DIGITS, scales += UR, c += UR * 32) {
    int16 part[UR][DIGITS][2];
    #pragma unroll
    for (int i = 0; i < UR * DIGITS; i++) part[i / DIGITS][i % DIGITS][0] = part[i / DIGITS][i % DIGITS][1] = sums[i];
    if (points) {
      const int16 point0 = convert_int16(((__global const uchar16*)points)[0]);
      const int16 point1 = convert_int16(((__global const uchar16*)points)[1]);
      #pragma unroll
      for (int i = 0; i < UR * DIGITS; i++) {
        part[i / DIGITS][i % DIGITS][0] = short_products(point0, sums[i]);
        part[i / DIGITS][i % DIGITS][1] = short_products(point1, sums[i]);
      }
    }
    __global const int* from = q;
    #pragma unroll 1
    for (int k = 0; k < vectors; k++, x += 16 * DIGITS, from += 128) {
      #pragma unroll
      for (int t = 0; t < 4; t++) {
        const int16 q0 = *(__global const int16*)(from + t * 32), q1 = *(__global const int16*)(from + t * 32 + 16);
        #pragma unroll
        for (int i = 0; i < UR; i++) {
          #pragma unroll
          for (int d = 0; d < DIGITS; d++) {
            const int16 v = (int16)(*(__global const int*)(x + i * row + d * 16 + t * 4));
            part[i][d][0] = add_dots(part[i][d][0], q0, v);
            part[i][d][1] = add_dots(part[i][d][1], q1, v);
          }
        }
      }
    }
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      #pragma unroll
      for (int j = 0; j < 2; j++) {
        float16 v = FLOATS_OF(part[i][DIGITS - 1][j]);
        #pragma unroll
        for (int d = DIGITS - 2; d >= 0; d--) v = fma(v, (float16)(256.0f), FLOATS_OF(part[i][d][j]));
        __global float* to = c + i * 32 + j * 16;
        STORE16(to, fma(v * scales[i], j ? scale1 : scale0, begun ? LOAD16(to) : (float16)(0.0f)));
      }
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_digit_rows_alone(__global const char* x, __global const int* sums, __global const float* scales,
                                     __global const int* q, __global const float* scale, __global float* c,
                                     const int rows) {
  micro_digit_rows(x, sums, scales, rows, 2, q, scale, 0, 0, c);
}
#endif
