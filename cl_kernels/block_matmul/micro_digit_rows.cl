// Product of many rows in digits and a block of 64 columns of weights that are bytes, added to sums in memory.
//
// Instance: UR (rows at a time), DIGITS (bytes of a number of x: 3 or 1), PARTS (sums of a block, as in micro_digits.cl). AVX-512
// holds 4 * UR sums, twice as many in 3 parts, <= 24.
//
// x, sums, scales   of the block, as block_digits.cl writes them: of `rows` rows, and of those that make them a multiple of UR
// vectors           of 16 weights in the block
// next              bytes from x to the same rows of the next block, which are fetched meanwhile
// q                 the weights, [vectors * 4][64] words of four neighbours
// scale, points     of the columns, [64]; zero points, by which the sums are yet to be multiplied, or null
// c                 [rows][64] floats that the products are added to, for as many rows as are computed
//
// A row and column has the same operations in the same order as in micro_digits.cl, and its error.
#include "digits.clh"
#include "post_tile.clh"

#ifndef UR
  #define UR 4
#endif
#ifndef DIGITS
  #define DIGITS 3
#endif
#ifndef PARTS
  #define PARTS 1
#endif
#define SUMS (PARTS == 1 ? 1 : 2)  // of 32 bits: of all digits, or of the last digit, and of those before it together

NOINLINE static void micro_digit_rows(__global const char* restrict x, __global const int* restrict sums,
                                      __global const float* restrict scales, const int rows, const int vectors,
                                      const long next, __global const int* restrict q, __global const float* restrict scale,
                                      __global const uchar* restrict points, __global float* restrict c) {
  const int row = vectors * 16 * DIGITS;
  #pragma unroll 1
  for (int y = 0; y < rows; y += UR, x += UR * row, sums += UR * PARTS, scales += UR, c += UR * 64) {
    for (int i = 0; i < UR * row; i += 64) FETCH_NEXT(x + next + i);
    int16 part[SUMS][UR][4];
    #pragma unroll
    for (int d = DIGITS - 1; d >= SUMS - 1; d--) {
      #pragma unroll
      for (int i = 0; i < UR; i++) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
          const int16 start = d < PARTS ? start_of(points, j, sums[i * PARTS + d]) : 0;
          part[SUMS - 1][i][j] = d == DIGITS - 1 ? start : (part[SUMS - 1][i][j] << 8) + start;
          if (d == 1 && SUMS == 2) part[0][i][j] = start_of(points, j, sums[i * PARTS]);
        }
      }
      __global const char* from = x;
      __global const int* weights = q;
      #pragma unroll 1
      for (int k = 0; k < vectors; k++, from += 16 * DIGITS, weights += 256) {
        #pragma unroll
        for (int t = 0; t < 4; t++) {
          int16 w[4];
          #pragma unroll
          for (int j = 0; j < 4; j++) w[j] = *(__global const int16*)(weights + t * 64 + j * 16);
          #pragma unroll
          for (int i = 0; i < UR; i++) {
            __global const int* words = (__global const int*)(from + i * row) + t;
            #pragma unroll
            for (int j = 0; j < 4; j++) part[SUMS - 1][i][j] = add_dots(part[SUMS - 1][i][j], w[j], (int16)(words[4 * d]));
            #pragma unroll
            for (int j = 0; j < 4 && d == 1 && SUMS == 2; j++) part[0][i][j] = add_dots(part[0][i][j], w[j], (int16)(words[0]));
          }
        }
      }
    }
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      #pragma unroll
      for (int j = 0; j < 4; j++) {
        const float16 v =
            SUMS == 1 ? FLOATS_OF(part[0][i][j]) : sum_of_digits(part[0][i][j], part[SUMS - 1][i][j]);
        __global float* to = c + i * 64 + j * 16;
        STORE16(to, fma(v * scales[i], LOAD_LOOSE(scale + j * 16), LOAD16(to)));
      }
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_digit_rows_alone(__global const char* x, __global const int* sums, __global const float* scales,
                                     __global const int* q, __global const float* scale, __global float* c,
                                     const int rows) {
  micro_digit_rows(x, sums, scales, rows, 2, 0, q, scale, 0, c);
}
#endif
