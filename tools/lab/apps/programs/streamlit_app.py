import pandas as pd
import streamlit as st

st.title('Orders')
st.write('User: ' + st.context.headers.get('X-User-Username', 'none'))
name = st.text_input('Name')
if name:
    st.write(f'Hello {name}')
if st.button('Large table'):
    st.dataframe(pd.DataFrame({'n': range(300_000)}))
    st.write('300000 rows')
file = st.file_uploader('File')
if file:
    st.write(f'{len(file.getvalue())} bytes')
