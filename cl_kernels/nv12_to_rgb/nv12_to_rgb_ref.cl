// y[n][i][j] = the red, green and blue of luma[n][i][j] and chroma[n][i / 2][j / 2], all bytes.
//
// Grid: one work-item two by two pixels, n of them. in0: luma; in1: chroma, Cb and Cr in turn, or the memory of both.
// table: pairs of rows and of columns, bytes of an image of luma and of chroma, where chroma begins, the offset of luma,
// 2^20 times the factors of luma, of Cr in red, Cr and Cb in green, Cb in blue. Exact.
#include "tensor.clh"

static uchar nv12_byte(const int sum) { return (uchar)clamp(sum >> 20, 0, 255); }

__kernel void nv12_to_rgb_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int width = 2 * table[1], j = id % table[1], i = id / table[1] % table[0], image = id / table[1] / table[0];
  __global const uchar* luma = BASE_OF(const uchar, in0) + image * table[2] + 2 * i * width + 2 * j;
  __global const uchar* chroma = BASE_OF(const uchar, in1) + table[4] + image * table[3] + i * width + 2 * j;
  __global uchar* to = BASE_OF(uchar, out0) + 3 * ((image * 2 * table[0] + 2 * i) * width + 2 * j);
  const int cb = chroma[0] - 128, cr = chroma[1] - 128;
  const int red = table[7] * cr, green = -table[8] * cr - table[9] * cb, blue = table[10] * cb;
  for (int pixel = 0; pixel < 4; pixel++) {
    const int at = (pixel >> 1) * width + (pixel & 1);
    const int bright = max(luma[at] - table[5], 0) * table[6] + (1 << 19);
    to[3 * at] = nv12_byte(bright + red);
    to[3 * at + 1] = nv12_byte(bright + green);
    to[3 * at + 2] = nv12_byte(bright + blue);
  }
}
