// Planes of floats of an image of bytes, a row of all colours at a time: rows of pixels summed, then columns, then colours.
//
// A ticket is a strip of rows of one image. Scratch holds one row of the image as floats, 16 floats more than those, and a
// row of each colour of the result, whole vectors, and one vector.
//
// inp, in_n, in_y, depth    the image, its pitches in bytes, colours of a pixel
// taps       how many a row and a column have; of each row and each column of the result the first pixel and the weights
// colours    for each plane the weights of the colours, and a number
// out, out_n, out_c, out_y, planes, height, width   the result, its pitches in floats
// strips, strip_rows, row_floats               of the result; floats of the first part of scratch
// padding    what there is where all weights are 0
//
// Error: (taps of a row + taps of a column + 2 K + 4) * 2^-24 * sum_k |colours[c][k]| sum |weight| 255.
#include "tile.clh"

typedef uchar16 __attribute__((aligned(1))) image_bytes;

// The sums of rows from byte `low` to `high`, less the padding.
static void image_row(__global const uchar* from, const int pitch, __global const float* weights, const int taps,
                      const int low, const int high, const float padding, __global float* row) {
  int i = low;
  for (; i + 16 <= high; i += 16) {
    float16 sum = 0.0f;
    for (int t = 0; t < taps; t++) {
      const float16 pixel = convert_float16(convert_int16(*(__global const image_bytes*)(from + t * pitch + i)));
      sum = fma((float16)(weights[t]), pixel - padding, sum);
    }
    STORE_LOOSE(row + i, sum);
  }
  for (; i < high; i++) {
    float sum = 0.0f;
    for (int t = 0; t < taps; t++) sum = fma(weights[t], from[t * pitch + i] - padding, sum);
    row[i] = sum;
  }
}

static void image_planes_rows(__global const image_planes_rows_desc* d, __global char** banks, __global char* scratch,
                              const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, n = ticket / d->strips;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width, depth = d->depth;
  __global const uchar* image = AT(const uchar, banks, d->inp) + (long)n * d->in_n;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n;
  __global const float* taps = AT(const float, banks, d->taps);
  __global const float* colours = AT(const float, banks, d->colours);
  const int rows = (int)taps[0], columns = (int)taps[1];
  __global const float* along = taps + 2 + d->height * (rows + 1);
  __global float* row = (__global float*)scratch;
  __global float* summed = row + d->row_floats;
  const int line = (width + 15) / 16 * 16;
  const int low = (int)along[0] * depth, high = ((int)along[(width - 1) * (columns + 1)] + columns) * depth;
  for (int y = strip * d->strip_rows; y < y1; y++) {
    __global const float* down = taps + 2 + y * (rows + 1);
    image_row(image + (long)(int)down[0] * d->in_y, d->in_y, down + 1, rows, low, high, d->padding, row);
    for (int x = 0; x < width; x++) {
      __global const float* column = along + x * (columns + 1);
      __global const float* from = row + (int)column[0] * depth;
      float4 sum = 0.0f;
      for (int t = 0; t < columns; t++) sum = fma((float4)(column[1 + t]), vload4(0, from + t * depth), sum);
      sum = clamp(sum + d->padding, 0.0f, 255.0f);
      summed[x] = sum.x;
      if (depth > 1) summed[line + x] = sum.y;
      if (depth > 2) summed[2 * line + x] = sum.z;
      if (depth > 3) summed[3 * line + x] = sum.w;
    }
    for (int c = 0; c < d->planes; c++) {
      __global const float* weights = colours + c * (depth + 1);
      __global float* to = out + (long)c * d->out_c + (long)y * d->out_y;
      for (int x = 0; x < width; x += 16) {
        float16 v = (float16)(weights[depth]);
        for (int k = 0; k < depth; k++) v = fma((float16)(weights[k]), LOAD_LOOSE(summed + k * line + x), v);
        if (x + 16 <= width) {
          STORE_LOOSE(to + x, v);
        } else {
          STORE_LOOSE(summed + depth * line, v);
          for (int i = x; i < width; i++) to[i] = summed[depth * line + i - x];
        }
      }
    }
  }
}
