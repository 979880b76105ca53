// Rows of a depthwise convolution of one channel block: `width` pixels in runs of UR. The last run overlaps the one before
// it, which it repeats. Shorter rows are for the instance of run-time kernels, which takes them pixel by pixel.
//
// Instance: K and S, a K x K kernel without horizontal dilation at horizontal stride S, or 0 for run-time ones; UR.
//
// ip, in_y, in_x    input at the window of the first pixel; floats from one window row, window column to the next
// turn, back        window rows from this one on lie so many floats before: those of a ring that begin it anew
// kernel_y, kernel_x, step   read where K is 0: the kernel, floats from one pixel's window to the next
// wp                weights [ky][kx][16];  bias: 16 floats or 0
// op                the output's first pixel
// rows, step_y, out_y        how many; floats from one row's windows, pixels to the next one's
// end               what is applied to the sums in registers: float_end.clh
//
// The sum runs in float with fma, ky outermost: |error| <= n 2^-24 sum |in w| for a window of n, plus one rounding, and those
// of the end.
#include "float_end.clh"
#include "tile.clh"

#ifndef K
  #define K 3
#endif
#ifndef S
  #define S 1
#endif
#ifndef UR
  #define UR 8
#endif
#define STEP(i) ((long)(i) * (S ? S * 16 : step))
#define WINDOW_ROW(ky) ((long)(ky) * in_y - ((ky) < turn ? 0 : back))

NOINLINE static void micro_depthwise(__global const float* restrict ip, __global const float* restrict wp,
                                     __global const float* restrict bias, __global float* restrict op, const int kernel_y,
                                     const int kernel_x, const int in_y, const int turn, const int back, const int in_x,
                                     const int step, const int width, const int rows, const int step_y, const int out_y,
                                     const float_end* end) {
  const int lines = K ? K : kernel_y, columns = K ? K : kernel_x, column = K ? 16 : in_x;
  const float16 start = bias ? LOAD16(bias) : (float16)(0.0f);
  for (int y = 0; y < rows; y++, ip += step_y, op += out_y) {
#if K == 0
    if (width < UR) {
      for (int x = 0; x < width; x++) {
        float16 sum[1] = {start};
        for (int ky = 0; ky < lines; ky++)
          for (int kx = 0; kx < columns; kx++)
            sum[0] = fma(LOAD16(ip + STEP(x) + WINDOW_ROW(ky) + kx * column), LOAD16(wp + (ky * columns + kx) * 16), sum[0]);
        END_REGISTERS(sum, 1, end)
        STORE16(op + x * 16, sum[0]);
      }
      continue;
    }
#endif
    for (int run = 0; run < width; run += UR) {
      const int x = min(run, width - UR);
      float16 sum[UR];
      #pragma unroll
      for (int i = 0; i < UR; i++) sum[i] = start;
      for (int ky = 0; ky < lines; ky++) {
        __global const float* p = ip + STEP(x) + WINDOW_ROW(ky);
        #pragma unroll
        for (int kx = 0; kx < columns; kx++) {
          const float16 w = LOAD16(wp + (ky * columns + kx) * 16);
          #pragma unroll
          for (int i = 0; i < UR; i++) sum[i] = fma(LOAD16(p + kx * column + STEP(i)), w, sum[i]);
        }
      }
      END_REGISTERS(sum, UR, end)
      #pragma unroll
      for (int i = 0; i < UR; i++) STORE16(op + (x + i) * 16, sum[i]);
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_depthwise_alone(__global const float* in, __global const float* w, __global const float* bias,
                                    __global float* out, const int in_y, const int width) {
  const float_end end = FLOAT_END_NONE;
  micro_depthwise(in, w, bias, out, 3, 3, in_y, 3, 0, 16, 16, width, 1, 0, 0, &end);
}
#endif
