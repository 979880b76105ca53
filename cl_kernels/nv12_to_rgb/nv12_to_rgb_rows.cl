// The red, green and blue of video frames, sixteen pixels of two rows at a time; all are bytes.
//
// A ticket is a strip of pairs of rows of one frame.
//
// luma, luma_n, chroma, chroma_n, out, out_n   the frames, and bytes from one to the next; rows are `width` bytes, of the
//                                              result three times as many
// pairs, width, strips, strip_pairs            of rows
// offset                                       of luma
// bright, red, green, green_cb, blue           2^20 times the factors of luma, of Cr in red, Cr and Cb in green, Cb in blue
//
// Exact.
#include "tile.clh"

typedef uchar16 __attribute__((aligned(1))) frame_bytes;

static uchar16 nv12_bytes(const int16 sum) { return convert_uchar16(clamp(sum >> 20, 0, 255)); }

static uchar nv12_single(const int sum) { return (uchar)clamp(sum >> 20, 0, 255); }

static void nv12_to_rgb_rows(__global const nv12_to_rgb_rows_desc* d, __global char** banks, __global char* scratch,
                             const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, n = ticket / d->strips, width = d->width;
  const int end = min((strip + 1) * d->strip_pairs, d->pairs);
  for (int pair = strip * d->strip_pairs; pair < end; pair++) {
    __global const uchar* luma = AT(const uchar, banks, d->luma) + n * d->luma_n + (long)pair * 2 * width;
    __global const uchar* chroma = AT(const uchar, banks, d->chroma) + n * d->chroma_n + (long)pair * width;
    __global uchar* out = AT(uchar, banks, d->out) + n * d->out_n + (long)pair * 6 * width;
    int x = 0;
    for (; x + 16 <= width; x += 16) {
      const uchar16 both = *(__global const frame_bytes*)(chroma + x);
      const int16 cb = convert_int16(both.s0022446688aaccee) - 128, cr = convert_int16(both.s1133557799bbddff) - 128;
      const int16 red = d->red * cr + (1 << 19), blue = d->blue * cb + (1 << 19);
      const int16 green = (1 << 19) - d->green * cr - d->green_cb * cb;
      for (int row = 0; row < 2; row++) {
        const int16 pixel = convert_int16(*(__global const frame_bytes*)(luma + row * width + x));
        const int16 bright = max(pixel - d->offset, 0) * d->bright;
        const uchar16 r = nv12_bytes(bright + red), g = nv12_bytes(bright + green), b = nv12_bytes(bright + blue);
        __global frame_bytes* to = (__global frame_bytes*)(out + 3 * (row * width + x));
        to[0] = (uchar16)(r.s0, g.s0, b.s0, r.s1, g.s1, b.s1, r.s2, g.s2, b.s2, r.s3, g.s3, b.s3, r.s4, g.s4, b.s4, r.s5);
        to[1] = (uchar16)(g.s5, b.s5, r.s6, g.s6, b.s6, r.s7, g.s7, b.s7, r.s8, g.s8, b.s8, r.s9, g.s9, b.s9, r.sa, g.sa);
        to[2] = (uchar16)(b.sa, r.sb, g.sb, b.sb, r.sc, g.sc, b.sc, r.sd, g.sd, b.sd, r.se, g.se, b.se, r.sf, g.sf, b.sf);
      }
    }
    for (; x < width; x++) {
      const int cb = chroma[x & ~1] - 128, cr = chroma[x | 1] - 128;
      for (int row = 0; row < 2; row++) {
        const int bright = max(luma[row * width + x] - d->offset, 0) * d->bright + (1 << 19);
        __global uchar* to = out + 3 * (row * width + x);
        to[0] = nv12_single(bright + d->red * cr);
        to[1] = nv12_single(bright - d->green * cr - d->green_cb * cb);
        to[2] = nv12_single(bright + d->blue * cb);
      }
    }
  }
}
